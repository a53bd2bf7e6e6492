package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
)

// Report is what Check and Repair found in a directory.
type Report struct {
	Segments    int
	Records     int
	Messages    int // that a queue holds
	Definitions int
	Bytes       int64 // of all segments
	Dead        int64 // bytes that are settled or otherwise of no use
	Torn        int64 // bytes at the end that a crash left; the next start cuts them off
	Clean       bool  // the store was closed in order
	Damage      []*CorruptError
	SetAside    []string // files that are kept under another name because of damage; from Repair those that it has renamed
}

// Check reads everything in a directory that no store has open, compares it with its checksums, and
// changes nothing. The error is for what could not be read; damage is in the report.
func Check(dir FS) (Report, error) {
	s, err := openForCheck(dir)
	if err != nil {
		return Report{}, fmt.Errorf("check the store: %w", err)
	}
	x := examination{store: s}
	err = errors.Join(x.run(), s.release())
	if err != nil {
		return Report{}, fmt.Errorf("check the store: %w", err)
	}
	r := x.report()
	if r.SetAside, err = asideFiles(dir); err != nil {
		return Report{}, fmt.Errorf("check the store: %w", err)
	}
	return r, nil
}

// openForCheck locks a directory that exists.
func openForCheck(dir FS) (*Store, error) {
	if _, err := dir.List(); err != nil {
		return nil, err
	}
	lock, err := dir.Lock()
	if err != nil {
		return nil, err
	}
	o, err := Options{}.withDefaults()
	return newStore(dir, o, lock), err
}

// examination reads all of a directory and goes on after damage.
type examination struct {
	store       *Store
	definitions definitionsRead
	log         *logReader
	indexes     []*CorruptError
}

func (x *examination) run() error {
	s := x.store
	x.log = newLogReader(s.fs, &s.ledger, nil, func(Found) *Message { return new(Message) })
	x.log.every, x.log.salvage = true, true
	if err := x.log.read(); err != nil {
		return err
	}
	var err error
	x.definitions, err = s.readDefinitions(true)
	if errors.Is(err, fs.ErrNotExist) {
		x.definitions.missing(!x.log.empty() || len(x.log.unreadable) > 0)
	} else if err != nil {
		return err
	}
	return x.compareIndexes()
}

// compareIndexes finds indexes that are sound but not those of their segments.
func (x *examination) compareIndexes() error {
	for _, g := range x.store.ledger.segments {
		ix, ok := readIndex(x.store.fs, g)
		if !ok {
			continue
		}
		want, err := buildIndex(g)
		var corrupt *CorruptError
		if errors.As(err, &corrupt) {
			continue
		}
		if err != nil {
			return err
		}
		if !bytes.Equal(ix.rest, want[indexHead:len(want)-4]) {
			x.indexes = append(x.indexes, &CorruptError{File: indexName(g.header.number), Problem: "the index is not that of its segment"})
		}
	}
	return nil
}

func (x *examination) report() Report {
	s := x.store
	r := Report{
		Segments:    len(s.ledger.segments),
		Records:     x.log.records,
		Messages:    s.ledger.messages,
		Definitions: len(s.values),
		Torn:        x.log.torn + x.definitions.torn,
		Clean:       x.log.replay.clean && x.log.torn == 0,
	}
	r.Bytes, r.Dead = s.ledger.weigh(0)
	r.Damage = append(r.Damage, x.definitions.damage...)
	r.Damage = append(r.Damage, x.log.damage...)
	r.Damage = append(r.Damage, x.indexes...)
	return r
}
