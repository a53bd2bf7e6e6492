package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

// diary is a user whose definitions name the last step, so that a backup shows whether its definitions and its
// messages are of the same moment.
type diary struct {
	*user
	steps int
	sums  []uint64 // of the holds after each step
}

const diaryKey = "step"

func (d *diary) note() {
	d.sums = append(d.sums, sumHolds(d.holds))
	d.store.Define([]store.Definition{{Key: diaryKey, Value: binary.AppendUvarint(nil, uint64(d.steps))}}, nil)
	d.steps++
}

// newDiary opens a store whose log is longer than the buffer of a backup, so that a backup has to wait for its reader.
func newDiary(t testing.TB, disk *storetest.Disk, o store.Options) *diary {
	d := &diary{user: newUser(t, 5)}
	o.SegmentSize = 16 << 10
	d.open(disk, o)
	var b store.Batch
	for range 400 {
		d.publish(&b, 1500)
		d.commit(&b)
		b.Reset()
		d.note()
	}
	return d
}

func (d *diary) work(steps int) {
	for range steps {
		d.step()
		d.note()
	}
}

// settleAll settles all messages, so that the cleaner discards all segments but the last.
func (d *diary) settleAll() {
	for len(d.live) > 0 {
		var b store.Batch
		d.settle(&b, d.live[0])
		d.commit(&b)
		d.note()
	}
	d.wait(d.commit(new(store.Batch)))
}

// mustRestore restores a backup and fails unless it is the state of one moment, not before a step.
func (d *diary) mustRestore(backup []byte, began int) *storetest.Disk {
	d.t.Helper()
	disk := storetest.NewDisk()
	report, err := store.Restore(context.Background(), disk, bytes.NewReader(backup))
	if err != nil {
		d.t.Fatalf("Restore: %v", err)
	}
	r, err := recoverFrom(disk, store.Options{SegmentSize: 16 << 10}, nil)
	if err != nil {
		d.t.Fatalf("open what was restored: %v", err)
	}
	defer r.store.Close()
	if report.Messages != len(r.mails) || len(report.Damage) > 0 || report.Torn > 0 {
		d.t.Errorf("Restore: got report %+v, want %d messages and no damage", report, len(r.mails))
	}
	step := -1
	for _, def := range r.store.Definitions() {
		if def.Key == diaryKey {
			n, _ := binary.Uvarint(def.Value)
			step = int(n)
		}
	}
	if step < began {
		d.t.Errorf("restored the definitions of step %d, want step %d or a later one", step, began)
	}
	// The next step may have changed messages already, and not yet the definitions.
	sum := sumHolds(r.holds)
	if step < 0 || sum != d.sums[step] && (step+1 >= len(d.sums) || sum != d.sums[step+1]) {
		d.t.Errorf("restored %d holds, want those after step %d, as the definitions", len(r.holds), step)
	}
	for seq, got := range r.mails {
		want := d.mails[seq]
		if want == nil || !equalContent(got.content, want.content) || got.meta != want.meta {
			d.t.Fatalf("message %d is not what was published", seq)
		}
	}
	return disk
}

// slowWriter passes on one write for each value that it receives, and all of them after the channel was closed.
type slowWriter struct {
	bytes.Buffer
	allow chan struct{}
	began chan struct{} // closed at the first write
}

func newSlowWriter() *slowWriter {
	return &slowWriter{allow: make(chan struct{}), began: make(chan struct{})}
}

func (w *slowWriter) Write(b []byte) (int, error) {
	if w.Len() == 0 {
		select {
		case <-w.began:
		default:
			close(w.began)
		}
	}
	<-w.allow
	return w.Buffer.Write(b)
}

// segmentFiles returns how many segments are on a disk.
func segmentFiles(disk *storetest.Disk) int {
	names, _ := disk.List()
	return len(slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".log") || name == "definitions.log" }))
}

// Backups are taken while messages are published, settled and counted, segments begin, are copied and are
// removed, and definitions change. Each is the state of one moment.
func TestBackupUnderLoad(t *testing.T) {
	disk := storetest.NewDisk()
	d := newDiary(t, disk, store.Options{})
	for round := range max(3, 12/store.Thinning) {
		removed := d.store.Stats().Removed
		began := d.steps - 1
		w, ended := newSlowWriter(), make(chan error, 1)
		go func() { ended <- d.store.Backup(context.Background(), w) }()
		<-w.began
		d.work(60)
		if d.wait(d.commit(new(store.Batch))); round%2 == 0 {
			// The oldest messages are in the segments that the backup has yet to read.
			for range 250 {
				var b store.Batch
				d.settle(&b, d.live[0])
				d.wait(d.commit(&b))
				d.note()
			}
		}
		for done := false; !done; {
			select {
			case w.allow <- struct{}{}:
				d.work(10)
			case err := <-ended:
				if err != nil {
					t.Fatalf("round %d: Backup: %v", round, err)
				}
				done = true
			}
		}
		if d.mustRestore(w.Bytes(), began); t.Failed() {
			t.Fatalf("round %d", round)
		}
		if round == 0 && d.store.Stats().Removed == removed {
			t.Error("the cleaner removed no segment during a backup: this test shows nothing")
		}
		for len(d.live) < 400 {
			var b store.Batch
			d.publish(&b, 1500)
			d.commit(&b)
			d.note()
		}
	}
	d.close()
}

// stalled starts a backup whose reader stops reading, and lets the cleaner discard all segments that it needs.
func stalled(ctx context.Context, d *diary) (w *slowWriter, ended chan error) {
	w, ended = newSlowWriter(), make(chan error, 1)
	go func() { ended <- d.store.Backup(ctx, w) }()
	<-w.began
	d.settleAll()
	synctest.Wait()
	return w, ended
}

// A reader that stalls stops neither publishers nor the cleaner. What it keeps is not more than the log at the
// beginning, and is removed when it has read it. A crash meanwhile does no harm.
func TestBackupStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		d := newDiary(t, disk, store.Options{})
		synctest.Wait()
		began, before := d.steps-1, disk.Used()
		w, ended := stalled(t.Context(), d)
		if got := d.store.Stats().Segments; got > 2 {
			t.Errorf("the log has %d segments, want the cleaner to have discarded all but the last", got)
		}
		kept := segmentFiles(disk)
		if kept < 20 {
			t.Errorf("got %d files during the backup, want those that it has not read yet", kept)
		}
		for range 3 { // much passes, and is removed
			for range 300 {
				var b store.Batch
				d.publish(&b, 1500)
				d.commit(&b)
				d.note()
			}
			d.settleAll()
			synctest.Wait()
		}
		if got, limit := disk.Used(), 2*before; got > limit {
			t.Errorf("the disk has %d bytes, want at most %d: the log when the backup began, and what is live", got, limit)
		}
		if err := d.store.Backup(t.Context(), io.Discard); !errors.Is(err, store.ErrBackupRunning) {
			t.Errorf("a second backup: got %v, want ErrBackupRunning", err)
		}
		killed := disk.Killed()
		d.mustRecover(killed, store.Options{SegmentSize: 16 << 10}, d.durable())
		if got := segmentFiles(killed); got > 2 {
			t.Errorf("got %d segments after a crash and a start, want those of the log", got)
		}
		w.allow <- struct{}{}
		synctest.Wait()
		if got := segmentFiles(disk); got >= kept {
			t.Errorf("got %d files after a part was read, want fewer than %d", got, kept)
		}
		close(w.allow)
		if err := <-ended; err != nil {
			t.Fatalf("Backup: %v", err)
		}
		if got := segmentFiles(disk); got > 2 {
			t.Errorf("got %d segments after the backup, want those of the log", got)
		}
		d.mustRestore(w.Bytes(), began)
		d.close()
	})
}

// A backup that is cancelled while its reader stalls frees its files at once.
func TestBackupCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		d := newDiary(t, disk, store.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		w, ended := stalled(ctx, d)
		cancel()
		synctest.Wait()
		if got := segmentFiles(disk); got > 2 {
			t.Errorf("got %d segments after the cancellation, want those of the log", got)
		}
		d.work(20)
		close(w.allow)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Backup: got %v, want context.Canceled", err)
		}
		if err := store.CheckBackup(t.Context(), &w.Buffer); !errors.Is(err, store.ErrBadBackup) {
			t.Errorf("CheckBackup: got %v, want ErrBadBackup", err)
		}
		mustBackUp(t, d)
		d.close()
	})
}

// mustBackUp fails unless a backup is possible.
func mustBackUp(t *testing.T, d *diary) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := d.store.Backup(t.Context(), &b); err != nil {
		t.Fatalf("Backup: %v", err)
	}
	return b.Bytes()
}

// A store closes although the reader of a backup stalls, and leaves no files that are not needed.
func TestCloseDuringBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		d := newDiary(t, disk, store.Options{})
		w, ended := stalled(t.Context(), d)
		d.close()
		if got := segmentFiles(disk); got > 2 {
			t.Errorf("got %d segments after Close, want those of the log", got)
		}
		close(w.allow)
		if err := <-ended; !errors.Is(err, store.ErrClosed) {
			t.Errorf("Backup: got %v, want ErrClosed", err)
		}
		if err := d.store.Backup(t.Context(), io.Discard); !errors.Is(err, store.ErrClosed) {
			t.Errorf("Backup after Close: got %v, want ErrClosed", err)
		}
		mustCheck(t, disk, 0)
	})
}

// A backup whose reader stalls is given up when the disk is full, so that publishers can continue. The reason
// is in the backup.
func TestBackupGivenUpForSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := storetest.NewDisk()
		full := make(chan bool, 10)
		d := newDiary(t, disk, store.Options{DiskReserve: 128 << 10, Full: func(is bool) { full <- is }})
		w, ended := stalled(t.Context(), d)
		disk.SetCapacity(disk.Used() + 64<<10)
		for range 20 {
			var b store.Batch
			d.publish(&b, 1500)
			d.wait(d.commit(&b))
			d.note()
		}
		synctest.Wait()
		if got := segmentFiles(disk); got > 10 {
			t.Errorf("got %d segments after the backup was given up, want those of the log", got)
		}
		close(w.allow)
		if err := <-ended; !errors.Is(err, store.ErrBackupSpace) {
			t.Errorf("Backup: got %v, want ErrBackupSpace", err)
		}
		if is := <-full; !is {
			t.Error("the disk was not reported as full")
		}
		if is := <-full; is {
			t.Error("the disk is still full after the backup was given up")
		}
		err := store.CheckBackup(t.Context(), &w.Buffer)
		if !errors.Is(err, store.ErrBadBackup) || !strings.Contains(err.Error(), "nearly full") {
			t.Errorf("CheckBackup: got %v, want ErrBadBackup with the reason", err)
		}
		d.close()
	})
}

// failingWriter fails after some bytes.
type failingWriter struct{ left int }

var errReader = errors.New("the reader is gone")

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errReader
	}
	return len(b), nil
}

func TestBackupWriterFails(t *testing.T) {
	disk := storetest.NewDisk()
	d := newDiary(t, disk, store.Options{})
	for left := 0; left < 600<<10; left += 100 << 10 {
		if err := d.store.Backup(t.Context(), &failingWriter{left}); !errors.Is(err, errReader) {
			t.Errorf("the writer fails after %d bytes: got %v, want its error", left, err)
		}
	}
	d.mustRestore(mustBackUp(t, d), d.steps-1)
	d.close()
}

// Damage is not copied to a backup, which names it.
func TestBackupFindsDamage(t *testing.T) {
	disk := storetest.NewDisk()
	d := newDiary(t, disk, store.Options{})
	name := "0000000000000003.log"
	b := disk.Bytes(name)
	for _, offset := range []int{200, len(b) / 2, len(b) - 1} {
		bad := slices.Clone(b)
		bad[offset] ^= 0x10
		disk.Put(name, bad)
		damaged := storetest.NewDisk()
		names, _ := disk.List()
		for _, n := range names {
			damaged.Put(n, disk.Bytes(n))
		}
		var archive bytes.Buffer
		var corrupt *store.CorruptError
		if err := store.Backup(t.Context(), damaged, &archive); !errors.As(err, &corrupt) || corrupt.File != name {
			t.Errorf("backup of a directory with damage at offset %d: got %v, want a CorruptError for %s", offset, err, name)
		}
		r, err := store.Restore(t.Context(), storetest.NewDisk(), &archive)
		if !errors.Is(err, store.ErrBadBackup) {
			t.Errorf("Restore: got %+v and %v, want ErrBadBackup", r, err)
		}
	}
	d.close()

	// The damage appears while the store runs.
	running := storetest.NewDisk()
	flip := false
	running.ReadFault = func(read string, _ int64) error {
		if flip && read == name {
			return errReader
		}
		return nil
	}
	d = newDiary(t, running, store.Options{})
	flip = true
	var archive bytes.Buffer
	if err := d.store.Backup(t.Context(), &archive); !errors.Is(err, errReader) {
		t.Errorf("backup of a file that cannot be read: got %v, want the error", err)
	}
	if err := store.CheckBackup(t.Context(), &archive); !errors.Is(err, store.ErrBadBackup) || !strings.Contains(err.Error(), errReader.Error()) {
		t.Errorf("CheckBackup: got %v, want ErrBadBackup with the reason", err)
	}
	flip = false
	d.close()
}

// The backup of a stopped store is closed cleanly if the store was, and otherwise has what a crash has left.
func TestBackupOfDirectory(t *testing.T) {
	disk := storetest.NewDisk()
	d := newDiary(t, disk, store.Options{})
	d.work(200)
	d.wait(d.store.Define([]store.Definition{{Key: "last", Value: []byte("1")}}, nil))
	killed := disk.Killed()
	d.close()
	for name, image := range map[string]*storetest.Disk{"closed": disk, "killed": killed} {
		var archive bytes.Buffer
		if err := store.Backup(t.Context(), image, &archive); err != nil {
			t.Fatalf("%s: Backup: %v", name, err)
		}
		restored := d.mustRestore(archive.Bytes(), d.steps-1)
		if r, err := recoverFrom(restored, store.Options{}, nil); err != nil {
			t.Error(err)
		} else {
			r.store.Close()
		}
		fresh := storetest.NewDisk()
		report, err := store.Restore(t.Context(), fresh, &archive)
		if err != nil || report.Clean != (name == "closed") {
			t.Errorf("%s: got report %+v and %v, want closed cleanly: %v", name, report, err, name == "closed")
		}
	}
	if err := store.Backup(t.Context(), storetest.NewDisk(), io.Discard); !errors.Is(err, store.ErrNoStore) {
		t.Errorf("backup of an empty directory: got %v, want ErrNoStore", err)
	}
}

// The backup of a running store is never one of a cleanly closed store, even if nothing was committed since
// the start: messages may have been delivered.
func TestBackupIsNotClean(t *testing.T) {
	for _, sync := range []store.SyncMode{store.SyncAlways, store.SyncNever} {
		disk := storetest.NewDisk()
		u := newUser(t, 3)
		u.open(disk, store.Options{Sync: sync})
		u.wait(u.step())
		u.close()
		u.open(disk, store.Options{Sync: sync})
		var archive bytes.Buffer
		if err := u.store.Backup(t.Context(), &archive); err != nil {
			t.Fatal(err)
		}
		restored := storetest.NewDisk()
		if report, err := store.Restore(t.Context(), restored, &archive); err != nil || report.Clean || report.Messages != 1 {
			t.Errorf("sync %d: got report %+v and %v, want one message, and not closed cleanly", sync, report, err)
		}
		u.close()
	}
}
