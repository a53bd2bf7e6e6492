package store_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

// smallBackup returns the backup of a store with several segments, messages and definitions.
func smallBackup(t testing.TB, steps int) ([]byte, *user) {
	t.Helper()
	disk := storetest.NewDisk()
	u := newUser(t, 11)
	u.open(disk, store.Options{SegmentSize: 4096})
	for i := range steps {
		u.step()
		u.store.Define([]store.Definition{{Key: fmt.Sprint("queue ", i%3), Value: []byte("settings")}}, nil)
	}
	var b bytes.Buffer
	if err := u.store.Backup(context.Background(), &b); err != nil {
		t.Fatal(err)
	}
	u.close()
	return b.Bytes(), u
}

// mustBeEmpty fails unless a directory has no data, and can be restored to.
func mustBeEmpty(t *testing.T, disk *storetest.Disk) {
	t.Helper()
	names, _ := disk.List()
	if names = slices.DeleteFunc(names, func(name string) bool { return name == "LOCK" }); len(names) > 0 {
		t.Fatalf("got files %v after a restore that failed, want none", names)
	}
}

// A backup that is cut off anywhere, or in which any byte is changed, is not restored.
func TestRestoreRefusesWhatIsNotComplete(t *testing.T) {
	t.Parallel()
	whole, u := smallBackup(t, 8)
	refuse := func(what string, backup []byte) {
		t.Helper()
		disk := storetest.NewDisk()
		_, err := store.Restore(t.Context(), disk, bytes.NewReader(backup))
		if !errors.Is(err, store.ErrBadBackup) {
			t.Fatalf("%s: got %v, want ErrBadBackup", what, err)
		}
		mustBeEmpty(t, disk)
		if err := store.CheckBackup(t.Context(), bytes.NewReader(backup)); !errors.Is(err, store.ErrBadBackup) {
			t.Fatalf("%s: CheckBackup: got %v, want ErrBadBackup", what, err)
		}
	}
	for size := 0; size < len(whole); size += store.Thinning {
		refuse(fmt.Sprintf("cut off after %d of %d bytes", size, len(whole)), whole[:size])
	}
	for i := 0; i < len(whole); i += store.Thinning {
		bad := slices.Clone(whole)
		bad[i] ^= 1 << (i % 8)
		refuse(fmt.Sprintf("byte %d of %d is changed", i, len(whole)), bad)
	}
	t.Logf("%d bytes", len(whole))
	refuse("a byte follows", append(slices.Clone(whole), 0))
	refuse("a second one follows", append(slices.Clone(whole), whole...))
	refuse("a text", []byte("this is not a backup, but it is longer than its header"))
	disk := storetest.NewDisk()
	if _, err := store.Restore(t.Context(), disk, bytes.NewReader(whole)); err != nil {
		t.Fatalf("the whole: %v", err)
	}
	u.mustRecover(disk, store.Options{SegmentSize: 4096}, u.durable())
}

// A restore is killed, or loses power, at each of its writes. What is left is empty, or refuses to be opened, or
// is the whole. It can always be restored again.
func TestRestoreCrashes(t *testing.T) {
	backup, u := smallBackup(t, 120)
	disk := storetest.NewDisk()
	rng := rand.New(rand.NewPCG(1, 1))
	var images []image
	disk.Fault = func(op storetest.Operation, name string) (int, error) {
		point := fmt.Sprintf("before %s %s", op, name)
		images = append(images, image{point: point + ", killed", disk: disk.Killed()})
		for range max(1, 8/store.Thinning) {
			images = append(images, image{point: point + ", power cut", disk: disk.PowerCut(rng)})
		}
		return 0, nil
	}
	if _, err := store.Restore(t.Context(), disk, bytes.NewReader(backup)); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		images = append(images, image{point: "after the restore, power cut", disk: disk.PowerCut(rng)})
	}
	disk.Fault = nil
	u.mustRecover(disk, store.Options{SegmentSize: 4096}, u.durable())

	empty, refused, whole := 0, 0, 0
	for _, im := range images {
		_, err := store.Check(t.Context(), im.disk)
		_, opened := recoverFrom(im.disk.Killed(), store.Options{}, nil)
		switch {
		case errors.Is(err, store.ErrNoStore):
			empty++
		case errors.Is(err, store.ErrRestoring) && errors.Is(opened, store.ErrRestoring):
			refused++
		case err == nil:
			whole++
			u.mustRecover(im.disk, store.Options{SegmentSize: 4096}, u.durable())
			continue
		default:
			t.Fatalf("%s: check: %v, open: %v, want nothing, the whole, or ErrRestoring", im.point, err, opened)
		}
		if _, err := store.Restore(t.Context(), im.disk, bytes.NewReader(backup)); err != nil {
			t.Fatalf("%s: restored again: %v", im.point, err)
		}
		u.mustRecover(im.disk, store.Options{SegmentSize: 4096}, u.durable())
	}
	t.Logf("%d images: %d empty, %d refused, %d whole", len(images), empty, refused, whole)
	if empty == 0 || refused < 50 || whole == 0 {
		t.Error("not all cases occurred: this test shows nothing")
	}
}

// A restore that fails, because the disk fails or is full or it is cancelled, leaves nothing.
func TestRestoreFails(t *testing.T) {
	backup, u := smallBackup(t, 120)
	changes := 0
	counting := storetest.NewDisk()
	counting.Fault = func(storetest.Operation, string) (int, error) { changes++; return 0, nil }
	if _, err := store.Restore(t.Context(), counting, bytes.NewReader(backup)); err != nil {
		t.Fatal(err)
	}
	for failing := range changes - 1 { // the last one syncs the removal of the mark, when all is there
		disk := storetest.NewDisk()
		seen := 0
		disk.Fault = func(storetest.Operation, string) (int, error) {
			if seen++; seen == failing+1 {
				return 0, errReader
			}
			return 0, nil
		}
		if _, err := store.Restore(t.Context(), disk, bytes.NewReader(backup)); !errors.Is(err, errReader) {
			t.Fatalf("change %d of %d fails: got %v, want the error", failing, changes, err)
		}
		if _, err := store.Check(t.Context(), disk); !errors.Is(err, store.ErrNoStore) && !errors.Is(err, store.ErrRestoring) {
			t.Fatalf("change %d of %d fails: got %v from a check, want no data or ErrRestoring", failing, changes, err)
		}
		if _, err := store.Restore(t.Context(), disk, bytes.NewReader(backup)); err != nil {
			t.Fatalf("change %d of %d failed: restored again: %v", failing, changes, err)
		}
		u.mustRecover(disk, store.Options{SegmentSize: 4096}, u.durable())
	}
	full := storetest.NewDisk()
	full.SetCapacity(int64(len(backup) / 2))
	if _, err := store.Restore(t.Context(), full, bytes.NewReader(backup)); err == nil {
		t.Error("restored to a disk that is too small")
	}
	mustBeEmpty(t, full)

	ctx, cancel := context.WithCancel(t.Context())
	cancelled := storetest.NewDisk()
	cancelled.Fault = func(op storetest.Operation, name string) (int, error) {
		if op == storetest.Write && strings.HasPrefix(name, "0") {
			cancel()
		}
		return 0, nil
	}
	if _, err := store.Restore(ctx, cancelled, bytes.NewReader(backup)); !errors.Is(err, context.Canceled) {
		t.Errorf("a restore that is cancelled: got %v, want context.Canceled", err)
	}
	mustBeEmpty(t, cancelled)
}

// A directory that has anything in it is left alone.
func TestRestoreRefusesDirectories(t *testing.T) {
	backup, u := smallBackup(t, 20)
	for _, names := range [][]string{{"notes.txt"}, {"definitions.log"}, {"0000000000000001.log", "LOCK"}, {"restoring", "notes.txt"}} {
		disk := storetest.NewDisk()
		for _, name := range names {
			disk.Put(name, []byte("mine"))
		}
		if _, err := store.Restore(t.Context(), disk, bytes.NewReader(backup)); !errors.Is(err, store.ErrHasData) {
			t.Errorf("%v: got %v, want ErrHasData", names, err)
		}
		for _, name := range names {
			if string(disk.Bytes(name)) != "mine" {
				t.Errorf("%v: %s was changed", names, name)
			}
		}
	}
	disk := storetest.NewDisk()
	u.open(disk, store.Options{})
	if _, err := store.Restore(t.Context(), disk, bytes.NewReader(backup)); !errors.Is(err, store.ErrHasData) {
		t.Errorf("the directory of an open store: got %v, want ErrHasData", err)
	}
	u.close()
	locked := storetest.NewDisk()
	lock, err := locked.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Restore(t.Context(), locked, bytes.NewReader(backup)); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a locked directory: got %v, want ErrLocked", err)
	}
	lock.Close()
	if _, err := store.Restore(t.Context(), locked, bytes.NewReader(backup)); err != nil {
		t.Errorf("a directory with a lock file: %v", err)
	}
}

// The end of a restored log is synced, so a file that loses it later is damaged, and not one that a crash has left.
func TestRestoredFilesMustNotGetShorter(t *testing.T) {
	backup, _ := smallBackup(t, 20)
	for _, name := range []string{"0000000000000001.log", "definitions.log"} {
		disk := storetest.NewDisk()
		if _, err := store.Restore(t.Context(), disk, bytes.NewReader(backup)); err != nil {
			t.Fatal(err)
		}
		disk.Put(name, disk.Bytes(name)[:150])
		var corrupt *store.CorruptError
		if _, err := recoverFrom(disk, store.Options{}, nil); !errors.As(err, &corrupt) || corrupt.File != name {
			t.Errorf("%s is shorter: got %v, want a CorruptError for it", name, err)
		}
	}
}

const restorerDir = "STORE_TEST_RESTORER_DIR"

// TestRestoreKilled kills a process while it restores.
func TestRestoreKilled(t *testing.T) {
	backup, u := smallBackup(t, 400)
	rng := rand.New(rand.NewPCG(1, 4))
	refused := 0
	for range max(4, 20/store.Thinning) {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), restorerDir+"="+dir)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// It begins when it has read something, and cannot end without the rest.
		if _, err := in.Write(backup[:1+rng.IntN(len(backup)-1)]); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("got %v, want the process killed", err)
		}
		switch _, err := store.Check(t.Context(), store.Dir(dir)); {
		case errors.Is(err, store.ErrRestoring):
			refused++
		case !errors.Is(err, store.ErrNoStore):
			t.Fatalf("check after a kill: got %v, want no data or ErrRestoring", err)
		}
		if _, err := store.Restore(t.Context(), store.Dir(dir), bytes.NewReader(backup)); err != nil {
			t.Fatalf("restored again: %v", err)
		}
		u.mustRecover(store.Dir(dir), store.Options{SegmentSize: 4096}, u.durable())
	}
	t.Logf("%d refused", refused)
}

// signallingReader reports the second read, when the first one was used.
type signallingReader struct {
	in    *os.File
	reads int
}

func (r *signallingReader) Read(b []byte) (int, error) {
	if r.reads++; r.reads == 2 {
		if _, err := os.Stdout.Write([]byte{1}); err != nil {
			return 0, err
		}
	}
	return r.in.Read(b[:min(len(b), 512)])
}

// beRestorer restores what it reads from its input.
func beRestorer(dir string) error {
	_, err := store.Restore(context.Background(), store.Dir(dir), &signallingReader{in: os.Stdin})
	return err
}

// FuzzRestore restores any bytes. It must not fail in another way than with an error, and what it accepts can be
// opened.
func FuzzRestore(f *testing.F) {
	small, _ := smallBackup(f, 2)
	larger, _ := smallBackup(f, 30)
	f.Add(small)
	f.Add(larger)
	f.Add(small[:len(small)/2])
	f.Add([]byte("RHBK\x01\x00\x00\x00x\x03\x00abc"))
	f.Add([]byte("RHBK\x01\x00\x00\x00f\x0fdefinitions.logb\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, backup []byte) {
		for _, sealed := range []bool{false, true} {
			if sealed { // with a sound checksum, so that what is inside is read too
				backup = seal(backup)
			}
			disk := storetest.NewDisk()
			report, err := store.Restore(t.Context(), disk, bytes.NewReader(backup))
			if err != nil {
				mustBeEmpty(t, disk)
				continue
			}
			r, err := recoverFrom(disk, store.Options{}, nil)
			if err != nil {
				t.Fatalf("open what was restored: %v", err)
			}
			if len(r.mails) != report.Messages {
				t.Errorf("opened %d messages, and restored %d", len(r.mails), report.Messages)
			}
			if err := r.store.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// seal replaces the end of a backup by one with the checksum of what is before it.
func seal(backup []byte) []byte {
	body := append(slices.Clone(backup[:max(len(backup)-33, 0)]), 'e')
	sum := sha256.Sum256(body)
	return append(body, sum[:]...)
}

// Backups of earlier formats can be restored. If this one cannot, the format has changed and needs another version.
func TestRestoreOfEarlierFormats(t *testing.T) {
	backup, err := os.ReadFile("testdata/backup-1")
	if err != nil {
		t.Fatal(err)
	}
	disk := storetest.NewDisk()
	report, err := store.Restore(t.Context(), disk, bytes.NewReader(backup))
	if err != nil || report.Messages != 16 || report.Definitions != 3 {
		t.Fatalf("got report %+v and %v, want 16 messages and 3 definitions", report, err)
	}
	r, err := recoverFrom(disk, store.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.store.Close(); err != nil {
		t.Error(err)
	}
}
