package store

import (
	"cmp"
	"fmt"
	"log/slog"
)

// SyncMode is what has to happen before a commit counts as durable.
type SyncMode int

const (
	// SyncAlways waits for the disk: a durable commit survives a power failure. Every group of commits
	// needs one fdatasync.
	SyncAlways SyncMode = iota
	// SyncNever waits only for the operating system: a durable commit survives the end of the process,
	// also by kill -9, but a crash of the machine can lose the commits of the last seconds.
	SyncNever
)

// Options are the settings of a store.
type Options struct {
	// SegmentSize is the size at which a new file begins, at most 1 GiB. Default 64 MiB.
	SegmentSize int64
	// Sync is what has to happen before a commit counts as durable. Default SyncAlways.
	Sync SyncMode
	// DiskReserve is how much space should stay free. With less, Full is called. Default 64 MiB;
	// negative for none.
	DiskReserve int64
	// Synced is called when all commits up to the mark are durable. Calls are in order, one at a time,
	// and nothing is written until the call returns.
	Synced func(Mark)
	// Failed is called once if the log cannot be written any more. Nothing becomes durable from then on.
	Failed func(error)
	// Full is called with true when the disk is full or nearly full, and with false when it no longer
	// is. In between, publishers should wait, and consumers should continue.
	Full func(bool)
	// Logger receives what operators should know. Default is none.
	Logger *slog.Logger
	// Crash is called at each of CrashPoints, for tests.
	Crash func(point string)
}

const (
	defaultSegmentSize = 64 << 20
	maxSegmentSize     = 1 << 30
	minSegmentSize     = 4 << 10
	defaultDiskReserve = 64 << 20
)

// MaxBatch is the largest batch that can be committed.
const MaxBatch int64 = 2 << 30

// maxSegmentEnd is larger than any segment. Offsets fit into 32 bits.
const maxSegmentEnd = 3 << 30

func (o Options) withDefaults() (Options, error) {
	o.SegmentSize = cmp.Or(o.SegmentSize, defaultSegmentSize)
	o.DiskReserve = cmp.Or(o.DiskReserve, defaultDiskReserve)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.SegmentSize < minSegmentSize || o.SegmentSize > maxSegmentSize {
		return o, fmt.Errorf("segment size %d is not between %d and %d", o.SegmentSize, minSegmentSize, maxSegmentSize)
	}
	if o.Sync != SyncAlways && o.Sync != SyncNever {
		return o, fmt.Errorf("sync mode %d is unknown", o.Sync)
	}
	if o.Synced == nil {
		o.Synced = func(Mark) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	if o.Full == nil {
		o.Full = func(bool) {}
	}
	if o.Crash == nil {
		o.Crash = func(string) {}
	}
	return o, nil
}
