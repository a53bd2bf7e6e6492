package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// restoringName is a file that exists while a directory is restored. A store with this file is never opened,
// so that a restore that was killed is not mistaken for the whole.
const restoringName = "restoring"

var (
	// ErrHasData is returned by Restore for a directory with files.
	ErrHasData = errors.New("the directory is not empty: restore to a new or an empty directory")
	// ErrRestoring is returned for a directory whose restore has not finished.
	ErrRestoring = errors.New("the directory was not restored completely: restore the backup once more, which replaces what is there, or remove the directory")
)

// CheckBackup reads a backup and compares its checksum.
func CheckBackup(ctx context.Context, in io.Reader) error {
	discard := func(string, io.Reader) error { return nil }
	return readArchive(in, discard, ctx.Err)
}

// Restore writes a backup to a directory without files, checks everything in it, and syncs it. Until that is
// done, the directory cannot be opened; after a kill it can be restored again. If Restore returns an error,
// the directory has no data, unless the error is that it could not be emptied.
func Restore(ctx context.Context, dir FS, in io.Reader) (Report, error) {
	if err := refuseFiles(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Report{}, fmt.Errorf("restore the backup: %w", err)
	}
	lock, err := dir.Lock()
	if err != nil {
		return Report{}, fmt.Errorf("restore the backup: lock the directory: %w", err)
	}
	o, err := Options{}.withDefaults()
	if err != nil {
		return Report{}, errors.Join(err, lock.Close())
	}
	r := restoration{store: newStore(dir, o, lock)}
	report, err := r.run(ctx, in)
	if removable, ok := lock.(removableLock); ok && err != nil && !errors.Is(err, ErrHasData) {
		err = errors.Join(err, removable.remove())
	}
	if err := errors.Join(err, lock.Close()); err != nil {
		return Report{}, fmt.Errorf("restore the backup: %w", err)
	}
	return report, nil
}

// refuseFiles returns an error if a directory has files that no restore has left there.
func refuseFiles(dir FS) error {
	names, err := dir.List()
	if err != nil {
		return err
	}
	interrupted := slices.Contains(names, restoringName)
	for _, name := range names {
		if name != lockName && !(interrupted && isRestored(name)) {
			return ErrHasData
		}
	}
	return nil
}

// isRestored reports whether a file may be one that Restore has written.
func isRestored(name string) bool {
	_, ok := numberOf(name, segmentSuffix)
	return ok || slices.Contains([]string{restoringName, definitionsName, extentName, newExtentName}, name)
}

// refuseRestoring returns an error if a restore of the directory has not finished.
func refuseRestoring(dir FS) error {
	names, err := dir.List()
	if err == nil && slices.Contains(names, restoringName) {
		err = ErrRestoring
	}
	return err
}

// restoration fills a directory, which it has locked.
type restoration struct {
	store *Store
}

func (r *restoration) run(ctx context.Context, in io.Reader) (Report, error) {
	if err := refuseFiles(r.store.fs); err != nil { // again: it is locked now
		return Report{}, err
	}
	if err := r.begin(); err != nil {
		return Report{}, fmt.Errorf("mark the directory: %w", err)
	}
	report, err := r.fill(ctx, in)
	if closed := r.store.closeFiles(); err == nil {
		err = closed
	}
	if err != nil {
		if undone := r.undo(); undone != nil {
			err = errors.Join(err, fmt.Errorf("the directory could not be emptied: %w", undone))
		}
		return Report{}, err
	}
	return report, r.commit()
}

// begin marks the directory, and removes what an earlier restore has left.
func (r *restoration) begin() error {
	dir := r.store.fs
	if err := errors.Join(writeFile(dir, restoringName, nil, File.Sync), dir.Sync()); err != nil {
		return err
	}
	return r.empty()
}

// empty removes all files but the mark.
func (r *restoration) empty() error {
	dir := r.store.fs
	names, err := dir.List()
	if err != nil {
		return err
	}
	for _, name := range names {
		if name != restoringName && isRestored(name) {
			if err := dir.Remove(name); err != nil {
				return err
			}
		}
	}
	return dir.Sync()
}

// undo empties the directory. The mark goes last.
func (r *restoration) undo() error {
	if err := r.empty(); err != nil {
		return err
	}
	return r.commit()
}

// commit removes the mark, which is the moment at which the directory is complete, or empty again.
func (r *restoration) commit() error {
	return errors.Join(r.store.fs.Remove(restoringName), r.store.fs.Sync())
}

// fill writes all files and checks them as they are on disk.
func (r *restoration) fill(ctx context.Context, in io.Reader) (Report, error) {
	s := r.store
	if err := readArchive(in, r.writeFile, ctx.Err); err != nil {
		return Report{}, err
	}
	if err := s.fs.Sync(); err != nil {
		return Report{}, fmt.Errorf("sync the directory: %w", err)
	}
	x := &examination{store: s}
	if err := x.run(ctx); err != nil {
		return Report{}, err
	}
	report := x.report()
	if len(report.Damage) > 0 {
		return Report{}, badBackup("%v", report.Damage[0])
	}
	if report.Torn > 0 || x.log.headerless > 0 {
		return Report{}, badBackup("a file in it ends within a record")
	}
	log, defs := s.index.active(), s.defs.segment
	return report, s.writeExtent(extent{log.header.Number, log.end, defs.header.Salt, defs.end})
}

func (r *restoration) writeFile(name string, content io.Reader) error {
	f, err := r.store.fs.Create(name)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(io.NewOffsetWriter(f, 0), content, make([]byte, archiveBuffer))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// readArchive calls file for each file of an archive, and check before each read. What file does not read
// is skipped. The files are complete and in order: segments without gaps, and then the definitions.
func readArchive(in io.Reader, file func(name string, content io.Reader) error, check func() error) error {
	a, err := newArchiveReader(in)
	if err != nil {
		return err
	}
	last, complete := uint64(0), false
	for {
		name, err := a.next()
		if err != nil {
			return err
		}
		number, ok := numberOf(name, segmentSuffix)
		switch {
		case name == "" && complete:
			return nil
		case name == "":
			return badBackup("it has no definitions")
		case name == definitionsName && last > 0 && !complete:
			complete = true
		case ok && !complete && (last == 0 || number == last+1):
			last = number
		default:
			return badBackup("it is damaged before byte %d", a.read)
		}
		content := &checkedReader{a, check}
		if err := file(name, content); err != nil {
			return err
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, content, make([]byte, archiveBuffer)); err != nil {
			return err
		}
	}
}

// checkedReader calls check before each read.
type checkedReader struct {
	from  io.Reader
	check func() error
}

func (r *checkedReader) Read(b []byte) (int, error) {
	if err := r.check(); err != nil {
		return 0, err
	}
	return r.from.Read(b)
}
