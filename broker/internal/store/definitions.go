package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
)

const (
	definitionsName = "definitions.log"
	snapshotName    = "definitions.tmp"
	// snapshotSlack is how many bytes of garbage are tolerated.
	snapshotSlack = 64 << 10
	// definitionOverhead is about how many bytes a definition takes, without its key and value.
	definitionOverhead = recordHeaderSize + 8
)

// Definition is a queue, a binding, a user and so on, stored by name. The store does not interpret it.
type Definition struct {
	Key   string
	Value []byte
}

// Define sets and deletes definitions: a crash keeps all or none of these changes. The values must not be
// modified afterwards.
func (s *Store) Define(puts []Definition, deletes []string) Mark {
	var operations []byte
	for _, d := range puts {
		operations = appendPut(operations, d.Key, d.Value)
	}
	for _, key := range deletes {
		operations = appendDelete(operations, key)
	}
	if len(operations) == 0 {
		return 0
	}
	sum := checksum(operations)
	s.mu.Lock()
	if !s.open() {
		s.mu.Unlock()
		return never
	}
	for _, d := range puts {
		s.put(d.Key, d.Value)
	}
	for _, key := range deletes {
		s.remove(key)
	}
	before := s.defs.segment.end
	s.defs.begin(operations, sum, 0, s.seq, &s.free)
	s.account(s.defs.segment.end - before)
	mark, wake := s.committed()
	s.unlock(wake)
	return mark
}

// Definitions returns all definitions in the order of their keys.
func (s *Store) Definitions() []Definition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sortedDefinitions()
}

func (s *Store) sortedDefinitions() []Definition {
	all := make([]Definition, 0, len(s.values))
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		all = append(all, Definition{key, s.values[key]})
	}
	return all
}

func (s *Store) put(key string, value []byte) {
	s.remove(key)
	s.values[key] = value
	s.valueSize += int64(len(key)+len(value)) + definitionOverhead
}

func (s *Store) remove(key string) {
	if old, ok := s.values[key]; ok {
		s.valueSize -= int64(len(key)+len(old)) + definitionOverhead
		delete(s.values, key)
	}
}

// replayDefinitions applies a record, or returns what is wrong with it. It calls deleted, if not nil, for
// each definition that the record deletes.
func (s *Store) replayDefinitions(operations []byte, deleted func(Definition)) (problem string) {
	d := decoder{rest: operations}
	var op operation
	for d.next(&op) {
		switch op.kind {
		case opPut:
			s.put(string(op.key), bytes.Clone(op.value))
		case opDelete:
			if value, ok := s.values[string(op.key)]; ok && deleted != nil {
				deleted(Definition{string(op.key), value})
			}
			s.remove(string(op.key))
		case opSynced, opClosed:
		default:
			return "the record is not about definitions"
		}
	}
	if d.bad {
		return "the record is not valid in this version of the program"
	}
	return ""
}

// loadDefinitions reads the definitions, or creates the file in a new directory.
func (s *Store) loadDefinitions() error {
	if err := s.fs.Remove(snapshotName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	r, err := s.readDefinitions(false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.beginDefinitions()
	case err != nil:
		return err
	case len(r.damage) > 0:
		return r.damage[0]
	}
	return s.cutTail(s.defs.segment, r.torn)
}

// definitionsRead is the result of reading the definitions.
type definitionsRead struct {
	damage []*CorruptError
	torn   int64
	// deleted are the definitions that records have deleted, if the reader salvages.
	deleted []Definition
}

// missingDefinitions is the damage of a directory that has messages and no file of definitions.
func missingDefinitions() *CorruptError {
	return &CorruptError{File: definitionsName, Problem: "the file is missing, and there are messages"}
}

// readDefinitions reads the file of definitions, up to the first damage, or past it to salvage.
func (s *Store) readDefinitions(salvage bool) (r definitionsRead, err error) {
	f, err := s.fs.Open(definitionsName)
	if err != nil {
		return r, err
	}
	g := newSegment(definitionsName, header{})
	g.file = f
	s.defs.segment = g
	if g.end, err = f.Size(); err != nil {
		return r, err
	}
	if _, err := readHeader(g, definitionsMagic, 0); err != nil {
		if corrupt, ok := errors.AsType[*CorruptError](err); ok && salvage {
			r.damage = append(r.damage, corrupt)
			return r, nil
		}
		return r, err
	}
	want := s.extent.endOfDefinitions(g.header.Salt)
	if g.end < want {
		r.damage = append(r.damage, cutOff(g.name, g.end, want))
	}
	var deleted func(Definition)
	if salvage {
		deleted = func(d Definition) { r.deleted = append(r.deleted, d) }
	}
	records := recordReader{
		segment: g,
		salvage: salvage,
		apply:   func(sc *scanner) string { return s.replayDefinitions(sc.operations, deleted) },
		mayEnd:  func(offset int64) bool { return offset >= want },
	}
	err = records.read(headerSize)
	r.torn = records.torn
	r.damage = append(r.damage, records.damage...)
	return r, err
}

// beginDefinitions creates the file in a new directory. A directory with segments is not new.
func (s *Store) beginDefinitions() error {
	names, err := s.fs.List()
	if err != nil {
		return err
	}
	isSegment := func(name string) bool {
		_, ok := numberOf(name, segmentSuffix)
		return ok
	}
	if s.extent.Segment > 0 || slices.ContainsFunc(names, isSegment) {
		return missingDefinitions()
	}
	return s.writeSnapshot(s.newDefinitions())
}

// snapshotDefinitions rewrites the definitions if the file is mostly garbage. The new file includes what
// is pending.
func (s *Store) snapshotDefinitions() error {
	s.mu.Lock()
	if s.defs.segment.end < 2*s.valueSize+snapshotSlack {
		s.mu.Unlock()
		return nil
	}
	dropped := s.defs.take()
	s.free.put(dropped)
	s.account(-dropped.size())
	old := s.defs.segment.file
	content := s.newDefinitions()
	s.mu.Unlock()
	return errors.Join(s.writeSnapshot(content), old.Close())
}

// newDefinitions begins a file with all definitions, and returns what to write to it. Each definition is a
// record, so that damage affects few of them. The mutex is held, or the store is not yet in use.
func (s *Store) newDefinitions() chunks {
	s.defs.segment = newSegment(definitionsName, newHeader(definitionsMagic, 0, 0, s.seq))
	s.defs.noted = true // there is nothing before the first record
	var operations []byte
	for _, d := range s.sortedDefinitions() {
		operations = appendPut(operations[:0], d.Key, d.Value)
		s.defs.begin(operations, checksum(operations), 0, s.seq, &s.free)
	}
	return s.defs.take()
}

// writeSnapshot replaces the file of definitions.
func (s *Store) writeSnapshot(content chunks) error {
	g := s.defs.segment
	f, err := s.create(snapshotName, g.header)
	if err != nil {
		return err
	}
	g.file = f
	if err := s.writeChunks(content); err != nil {
		return err
	}
	if err := s.sync(g); err != nil {
		return err
	}
	s.options.Crash(pointSnapshot)
	if err := s.fs.Rename(snapshotName, definitionsName); err != nil {
		return fmt.Errorf("replace the definitions: %w", err)
	}
	s.options.Crash(pointRenamed)
	if err := s.fs.Sync(); err != nil {
		return fmt.Errorf("sync the directory after renaming the definitions: %w", err)
	}
	return nil
}
