package serve

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// followed is a file in a bubble of virtual time, and the changes that are noticed.
type followed struct {
	*testing.T
	path    string
	changed chan config.Sum
}

// inFollowed follows a file that has a content at first.
func inFollowed(t *testing.T, test func(f *followed)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := &followed{t, filepath.Join(dir, "rehop.yaml"), make(chan config.Sum, 10)}
		f.write(f.path, "first")
		ctx, cancel := context.WithCancel(t.Context())
		ended, loaded := make(chan struct{}), config.SumOf(f.path)
		go func() {
			defer close(ended)
			follow(f.path).run(ctx, loaded, f.changed)
		}()
		test(f)
		cancel()
		<-ended
	})
}

func (f *followed) write(path, text string) {
	f.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
}

func (f *followed) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// expect waits for a while, and then compares the number of changes that were noticed.
func (f *followed) expect(after time.Duration, want int) {
	f.Helper()
	time.Sleep(after)
	synctest.Wait()
	if got := len(f.changed); got != want {
		f.Errorf("%d changes were noticed, want %d", got, want)
	}
	for len(f.changed) > 0 {
		if got := <-f.changed; len(f.changed) == 0 && got != config.SumOf(f.path) {
			f.Error("the last change is not that of the content")
		}
	}
}

// A change is noticed, however the file is replaced, once.
func TestFollowing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(f *followed){
		"written": func(f *followed) { f.write(f.path, "second") },
		"renamed": func(f *followed) {
			f.write(f.path+".new", "second")
			f.must(os.Rename(f.path+".new", f.path))
		},
		"same size and time": func(f *followed) {
			before, err := os.Stat(f.path)
			f.must(err)
			f.write(f.path, "other")
			f.must(os.Chtimes(f.path, before.ModTime(), before.ModTime()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFollowed(t, func(f *followed) {
				f.expect(time.Minute, 0)
				change(f)
				f.expect(rereadEvery+2*followEvery, 1)
				f.expect(time.Hour, 0)
			})
		})
	}
}

// Kubernetes changes the target of a link to a directory.
func TestFollowingLinks(t *testing.T) {
	t.Parallel()
	inFollowed(t, func(f *followed) {
		dir := filepath.Dir(f.path)
		for _, version := range []string{"1", "2"} {
			f.must(os.Mkdir(filepath.Join(dir, version), 0o700))
			f.write(filepath.Join(dir, version, "rehop.yaml"), "version "+version)
		}
		f.must(os.Symlink("1", filepath.Join(dir, "..data")))
		f.must(os.Remove(f.path))
		f.must(os.Symlink("..data/rehop.yaml", f.path))
		f.expect(time.Minute, 1)
		f.must(os.Symlink("2", filepath.Join(dir, "..new")))
		f.must(os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
		f.expect(time.Minute, 1)
	})
}

// A file that is being written is noticed when it is done, one that is taken back is not, and one that is gone is.
func TestFollowingUnfinished(t *testing.T) {
	t.Parallel()
	inFollowed(t, func(f *followed) {
		for _, text := range []string{"a", "ab", "abc", "abcd", "abcde"} {
			f.write(f.path, text)
			f.expect(followEvery, 0)
		}
		f.expect(followEvery, 1)
		f.write(f.path, "other")
		f.expect(followEvery, 0)
		f.write(f.path, "abcde")
		f.expect(time.Minute, 0)
		f.must(os.Remove(f.path))
		f.expect(followEvery, 0)
		f.write(f.path, "abcde") // as an editor that deletes and writes
		f.expect(time.Minute, 0)
		f.must(os.Remove(f.path))
		f.expect(time.Minute, 1)
		f.write(f.path, "back")
		f.expect(time.Minute, 1)
	})
}
