package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/store"
)

// ErrNoData is the error for a directory without data of a server.
var ErrNoData = store.ErrNoStore

// CorruptError is the error for a damaged file. Restore the directory from a backup, or call RepairDir.
type CorruptError struct {
	// File is the path of the file in the server's directory.
	File string
	// Offset is where the damage begins, in bytes.
	Offset int64
	// Problem describes the damage.
	Problem string

	err error
}

func (e *CorruptError) Error() string { return e.err.Error() }

func (e *CorruptError) Unwrap() error { return e.err }

// withCorrupt wraps an error about a damaged file in a CorruptError.
func withCorrupt(err error) error {
	var corrupt *store.CorruptError
	if errors.As(err, &corrupt) {
		return &CorruptError{File: corrupt.File, Offset: corrupt.Offset, Problem: corrupt.Problem, err: err}
	}
	return err
}

// Report describes the data in a directory.
type Report struct {
	// Segments is the number of log files.
	Segments int
	// Records is the number of entries in them.
	Records int
	// Messages is the number of messages in queues.
	Messages int
	// Definitions is the number of virtual hosts, exchanges, queues, bindings, policies, users and parameters.
	Definitions int
	// Bytes is the size of all log files.
	Bytes int64
	// Dead is how many of these bytes are not needed any more. CompactDir frees them.
	Dead int64
	// Torn is how many bytes at the end of the log are incomplete because of a crash. They were never confirmed, and the
	// next start removes them.
	Torn int64
	// Clean is whether the server was closed. Otherwise it crashed or was killed.
	Clean bool
	// Damage lists the damaged parts of files.
	Damage []*CorruptError
	// SetAside lists the damaged files that are kept under another name. After RepairDir, these are the files that it has
	// renamed.
	SetAside []string
	// Recovered lists the queues that RepairDir has created.
	Recovered []RecoveredQueue
}

// RecoveredQueue is a queue that RepairDir has created for messages whose queue definition is lost.
type RecoveredQueue struct {
	// Vhost and Name identify the queue.
	Vhost, Name string
	// Messages is how many messages it has.
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

// Check compares the counters of a running server with the messages in its queues and in the log. Nothing may be published
// or consumed meanwhile; messages may expire. Use it at the end of tests. If the server was not started or is closed, Check reads the
// directory like CheckDir. It returns an error that lists all differences, or nil.
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

// CheckDir reads all files in the directory of a server that does not run, and verifies their checksums. It changes
// nothing. Damage is no error: the report lists it. The error is ErrNoData if the directory has no data, and ctx.Err if
// ctx ends before everything is read.
func CheckDir(ctx context.Context, dir string) (Report, error) {
	report, err := store.Check(ctx, store.Dir(dir))
	return newReport(report), withCorrupt(err)
}

// RepairDir makes the directory of a server usable again after Start has returned a CorruptError. The server must not
// run. RepairDir keeps everything that is not damaged and renames damaged files. The report lists what is lost.
//
// Messages whose queue definition is lost go to queues named rehop.recovered.<number> in the virtual host "/". The report
// lists these queues.
//
// If ctx ends while RepairDir reads, nothing has changed. A repair that has begun is completed.
func RepairDir(ctx context.Context, dir string) (Report, error) {
	report, err := node.Repair(ctx, dir)
	return newReport(report), withCorrupt(err)
}

// CompactDir frees the space of settled messages in the directory of a server that was closed. It returns an error if the
// server runs, crashed or was killed: start and close it before. A running server frees space by itself when most of the
// log is not needed. If ctx or the process ends, no message is lost, and CompactDir can be called again.
func CompactDir(ctx context.Context, dir string) (before, after Report, err error) {
	b, a, err := store.Compact(ctx, store.Dir(dir))
	return newReport(b), newReport(a), withCorrupt(err)
}
