package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/rehop/rehop/internal/node"
	"github.com/rehop/rehop/internal/node/store"
)

// Report is what Check and Repair found in a directory.
type Report = store.Report

// ErrNoData: a directory has nothing of a server in it.
var ErrNoData = store.ErrNoStore

// CorruptError says which file is not what was written, and where.
type CorruptError = store.CorruptError

// Check verifies the books of a server: that its queues hold what they say they hold, and that the log agrees. Nothing may be published
// or consumed meanwhile. Of a server that was not started or is closed it verifies the directory, as CheckDir does.
func (s *Server) Check() error {
	if n := s.node.Load(); n != nil && !n.Closed() {
		if err := n.CheckBooks(); err != nil {
			return fmt.Errorf("check the books: %w", err)
		}
		return nil
	}
	if s.Dir == "" {
		return nil
	}
	report, err := CheckDir(context.Background(), s.Dir)
	if err != nil {
		return err
	}
	var faults []error
	for _, d := range report.Damage {
		faults = append(faults, d)
	}
	return errors.Join(faults...)
}

// CheckDir reads everything in the directory of a server that does not run, and compares it with its checksums. It changes nothing.
func CheckDir(ctx context.Context, dir string) (Report, error) {
	return store.Check(ctx, store.Dir(dir))
}

// RepairDir makes the directory of a server that does not run fit to be used again after damage that Start has refused. What is
// sound is kept, and damaged files are set aside under other names; the report says what is lost. Messages whose queue is lost, because its definition
// was damaged, are in queues named rehop.recovered.<number> of the virtual host "/", which the report lists. When ctx ends while it looks
// for damage nothing was changed; a repair that has begun runs to its end.
func RepairDir(ctx context.Context, dir string) (Report, error) {
	return node.Repair(ctx, dir)
}

// CompactDir gives back the space of settled messages in the directory of a server that does not run, and was closed in order. A running
// server does so by itself when there is more to give back than to keep. When ctx ends, or the process, every message is still there, and it can be
// run again.
func CompactDir(ctx context.Context, dir string) (before, after Report, err error) {
	return store.Compact(ctx, store.Dir(dir))
}
