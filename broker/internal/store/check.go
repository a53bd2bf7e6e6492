package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// Report is what Check and Repair found in a directory.
type Report struct {
	Segments    int
	Records     int
	Messages    int // that a queue holds
	Definitions int
	Bytes       int64 // of all segments
	Dead        int64 // bytes that are no longer needed, such as settled messages
	Torn        int64 // bytes of an unfinished write at the end; the next start cuts them off
	Clean       bool  // the store was closed cleanly
	Damage      []*CorruptError
	SetAside    []string // damaged files that are kept under another name; from Repair, those that it renamed
	Recovered   []RecoveredQueue
}

// RecoveredQueue is a queue that a repair creates for messages whose own queue is lost.
type RecoveredQueue struct {
	Vhost, Name string
	Messages    int
}

// Check reads everything in a directory that no store has open and compares the checksums. It changes
// nothing. Damage is in the report. The error is for what could not be read.
func Check(ctx context.Context, dir FS) (Report, error) {
	var r Report
	err := examine(ctx, dir, "check", lockToRead, func(x *examination) (err error) {
		r = x.report()
		r.SetAside, err = asideFiles(dir)
		return err
	})
	if err != nil {
		return Report{}, err
	}
	return r, nil
}

// examine reads all of a directory that no store has open, and calls do, which can change it.
func examine(ctx context.Context, dir FS, what string, lock func(FS) (io.Closer, error), do func(*examination) error) error {
	s, err := openForCheck(dir, lock)
	if err == nil {
		x := &examination{store: s}
		if err = x.run(ctx); err == nil {
			err = do(x)
		}
		err = errors.Join(err, s.release())
	}
	if err != nil {
		return fmt.Errorf("%s the store: %w", what, err)
	}
	return nil
}

// openForCheck locks a directory with a store.
func openForCheck(dir FS, lockIt func(FS) (io.Closer, error)) (*Store, error) {
	if err := refuseRestoring(dir); err != nil {
		return nil, err
	}
	there, err := holdsStore(dir)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, ErrNoStore
	}
	lock, err := lockIt(dir)
	if err != nil {
		return nil, err
	}
	o, err := Options{}.withDefaults()
	return newStore(dir, o, lock), err
}

// holdsStore reports whether a directory has a file of a store, by its name and by its first bytes.
func holdsStore(dir FS) (bool, error) {
	names, err := dir.List()
	if err != nil {
		return false, err
	}
	for _, name := range names {
		magic := map[string]string{definitionsName: definitionsMagic, extentName: extentMagic}[name]
		if _, ok := numberOf(name, segmentSuffix); ok {
			magic = segmentMagic
		}
		if magic == "" {
			continue
		}
		begins, err := beginsWith(dir, name, magic)
		if begins || err != nil {
			return begins, err
		}
	}
	return false, nil
}

// beginsWith reports whether one of the two headers of a file begins with a magic.
func beginsWith(dir FS, name, magic string) (bool, error) {
	f, err := dir.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	b := make([]byte, headerSize)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read %s: %w", name, err)
	}
	return bytes.HasPrefix(b, []byte(magic)) || bytes.HasPrefix(b[headerCopy:], []byte(magic)), nil
}

// lockToRead locks a directory without creating a file in it. A copied directory may have no lock file.
func lockToRead(dir FS) (io.Closer, error) {
	names, err := dir.List()
	if err != nil || !slices.Contains(names, lockName) {
		return io.NopCloser(nil), err
	}
	return dir.Lock()
}

// examination reads all of a directory and continues after damage.
type examination struct {
	store       *Store
	extent      []*CorruptError
	definitions definitionsRead
	log         *logReader
	indexes     []*CorruptError
}

func (x *examination) run(ctx context.Context) error {
	s := x.store
	var err error
	if s.extent, err = readExtent(s.fs); err != nil {
		corrupt, ok := errors.AsType[*CorruptError](err)
		if !ok {
			return err
		}
		x.extent = append(x.extent, corrupt)
	}
	x.log = s.newLogReader(nil, func(Found) *Message { return new(Message) })
	x.log.every, x.log.salvage = true, true
	if err := x.log.read(ctx); err != nil {
		return err
	}
	x.definitions, err = s.readDefinitions(true)
	if errors.Is(err, fs.ErrNotExist) {
		if s.extent.Segment > 0 || !x.log.empty() || len(x.log.unreadable) > 0 {
			x.definitions.damage = append(x.definitions.damage, missingDefinitions())
		}
	} else if err != nil {
		return err
	}
	return x.compareIndexes(ctx)
}

// compareIndexes finds sound indexes that do not belong to their segments.
func (x *examination) compareIndexes(ctx context.Context) error {
	for _, g := range x.store.index.segments {
		if err := ctx.Err(); err != nil {
			return err
		}
		records, ok := readIndex(x.store.fs, g)
		if !ok {
			continue
		}
		want, err := buildIndex(g)
		if isDamage(err) {
			continue
		}
		if err != nil {
			return err
		}
		if !bytes.Equal(records, want[indexHead:len(want)-4]) {
			x.indexes = append(x.indexes, &CorruptError{File: indexName(g.header.Number), Problem: "the index does not belong to its segment"})
		}
	}
	return nil
}

func (x *examination) report() Report {
	s := x.store
	r := Report{
		Segments:    len(s.index.segments),
		Records:     x.log.records,
		Messages:    s.index.messages,
		Definitions: len(s.values),
		Torn:        x.log.torn + x.definitions.torn,
		Clean:       x.log.replay.clean && x.log.torn == 0,
	}
	r.Bytes, r.Dead = s.index.weigh(0)
	r.Damage = slices.Concat(x.extent, x.definitions.damage, x.log.damage, x.indexes)
	return r
}
