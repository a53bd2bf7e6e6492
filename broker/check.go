package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/store"
)

// ErrNoData is returned for a directory in which there is no data of a server.
var ErrNoData = store.ErrNoStore

// CorruptError is a file whose content is not what was written.
type CorruptError struct {
	// File is the path of the file below the server's directory.
	File string
	// Offset is where the damage begins, in bytes.
	Offset int64
	// Problem is what was found there.
	Problem string

	err error
}

func (e *CorruptError) Error() string { return e.err.Error() }

func (e *CorruptError) Unwrap() error { return e.err }

// withCorrupt makes an error one that users find as a CorruptError, if it is about a corrupt file.
func withCorrupt(err error) error {
	var corrupt *store.CorruptError
	if errors.As(err, &corrupt) {
		return &CorruptError{File: corrupt.File, Offset: corrupt.Offset, Problem: corrupt.Problem, err: err}
	}
	return err
}

// Report is what is in a directory.
type Report struct {
	// Segments is the number of files of the log.
	Segments int
	// Records is the number of entries in them.
	Records int
	// Messages is the number of messages that a queue holds.
	Messages int
	// Definitions is the number of virtual hosts, exchanges, queues, bindings, policies, users and parameters.
	Definitions int
	// Bytes is the size of all segments.
	Bytes int64
	// Dead is how many of these bytes are no longer needed. CompactDir frees them.
	Dead int64
	// Torn is how many bytes a crash has left incomplete at the end of the log. The next start removes them.
	Torn int64
	// Clean: the server was closed, and did not crash.
	Clean bool
	// Damage is where files are corrupt.
	Damage []*CorruptError
	// SetAside lists the damaged files that are kept under another name. From RepairDir, those that it has renamed.
	SetAside []string
	// Recovered lists the queues that RepairDir has created for messages whose own queue is lost.
	Recovered []RecoveredQueue
}

// RecoveredQueue is a queue that RepairDir has created for messages whose own queue is lost.
type RecoveredQueue struct {
	// Vhost and Name of the queue.
	Vhost, Name string
	// Messages is how many it has.
	Messages int
}

func newReport(r store.Report) Report {
	report := Report{Segments: r.Segments, Records: r.Records, Messages: r.Messages, Definitions: r.Definitions, Bytes: r.Bytes, Dead: r.Dead,
		Torn: r.Torn, Clean: r.Clean, SetAside: r.SetAside}
	for _, d := range r.Damage {
		report.Damage = append(report.Damage, &CorruptError{File: d.File, Offset: d.Offset, Problem: d.Problem, err: d})
	}
	for _, q := range r.Recovered {
		report.Recovered = append(report.Recovered, RecoveredQueue(q))
	}
	return report
}

// Check verifies the data of a server: that its queues hold what their counters say, and that the log agrees. Nothing
// may be published or consumed meanwhile. Of a server that was not started or is closed it verifies the directory, as
// CheckDir does.
func (s *Server) Check() error {
	if n := s.node.Load(); n != nil && !n.Closed() {
		if err := n.CheckCounts(); err != nil {
			return fmt.Errorf("check the broker: %w", err)
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

// CheckDir reads everything in the directory of a server that does not run, and compares it with its checksums. It
// changes nothing.
func CheckDir(ctx context.Context, dir string) (Report, error) {
	report, err := store.Check(ctx, store.Dir(dir))
	return newReport(report), withCorrupt(err)
}

// RepairDir makes the directory of a server usable again after Start has returned a CorruptError. The server must not
// run. What is not damaged is kept, and damaged files are renamed; the report lists what is lost. Messages whose queue
// is lost, because its definition was damaged, go to queues named rehop.recovered.<number> in the virtual host "/",
// which the report lists. If ctx ends while RepairDir reads, nothing has changed; a repair that has begun is completed.
func RepairDir(ctx context.Context, dir string) (Report, error) {
	report, err := node.Repair(ctx, dir)
	return newReport(report), withCorrupt(err)
}

// CompactDir frees the space of settled messages in the directory of a server that does not run and was closed, not
// killed. A running server frees space by itself when there is more to free than to keep. If ctx ends, or the process,
// every message is still there, and CompactDir can be called again.
func CompactDir(ctx context.Context, dir string) (before, after Report, err error) {
	b, a, err := store.Compact(ctx, store.Dir(dir))
	return newReport(b), newReport(a), withCorrupt(err)
}
