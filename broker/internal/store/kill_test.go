package store_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/rehop/rehop/broker/internal/store"
)

const (
	victimDir   = "STORE_TEST_VICTIM_DIR"
	victimFirst = "STORE_TEST_VICTIM_FIRST"
)

// TestMain is also the program that TestKill and TestRestoreKilled kill.
func TestMain(m *testing.M) {
	if dir := os.Getenv(restorerDir); dir != "" {
		fmt.Fprintln(os.Stderr, beRestorer(dir))
		os.Exit(1)
	}
	if dir := os.Getenv(victimDir); dir != "" {
		first, err := strconv.ParseUint(os.Getenv(victimFirst), 10, 64)
		if err == nil {
			err = beVictim(dir, first, os.Stdout)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// window is how many numbers a victim publishes without waiting.
const window = 20

// stays reports whether a victim leaves a number in its second queue.
func stays(n uint64) bool { return n%4 == 0 }

// beVictim publishes numbers to two queues until it is killed. Each is settled after the next is
// published, except those that stay. It prints how many of these commits are durable.
func beVictim(dir string, first uint64, out io.Writer) error {
	var mu sync.Mutex
	var marks []store.Mark // of the commits that are not durable yet
	durable := 0
	s, err := store.Open(store.Dir(dir), store.Options{SegmentSize: 64 << 10, Synced: func(m store.Mark) {
		mu.Lock()
		defer mu.Unlock()
		for len(marks) > 0 && marks[0] <= m {
			marks = marks[1:]
			durable++
		}
		fmt.Fprintln(out, durable)
	}})
	if err != nil {
		return err
	}
	create := func(store.Found) *store.Message { return new(store.Message) }
	if err := s.Recover(nil, create, func(*store.Message, store.Hold) {}); err != nil {
		return err
	}
	var b store.Batch
	commit := func() store.Mark {
		mu.Lock()
		defer mu.Unlock()
		mark := s.Commit(&b)
		marks = append(marks, mark)
		b.Reset()
		return mark
	}
	var last *store.Message
	for n := first; ; n++ {
		m := new(store.Message)
		body := binary.BigEndian.AppendUint64(make([]byte, 0, 200), n)
		b.Publish(m, store.Content{Body: body[:200]}, store.Meta{}, []store.QueueID{1, 2})
		mark := commit()
		if n%window == 0 {
			if err := s.Wait(context.Background(), mark); err != nil {
				return err
			}
		}
		if last != nil {
			b.Settle(last, 1)
			if !stays(n - 1) {
				b.Settle(last, 2)
			}
			commit()
		}
		last = m
	}
}

// claim is a number in a queue.
type claim struct {
	n     uint64
	queue store.QueueID
}

// afterCommits returns what a victim that began with a number leaves after this number of commits.
func afterCommits(first uint64, commits int) map[claim]bool {
	all := make(map[claim]bool)
	for i, n := 0, first; i < commits; n++ {
		all[claim{n, 1}], all[claim{n, 2}] = true, true
		i++
		if n > first && i < commits {
			delete(all, claim{n - 1, 1})
			if !stays(n - 1) {
				delete(all, claim{n - 1, 2})
			}
			i++
		}
	}
	return all
}

// TestKill kills a process several times while it writes.
func TestKill(t *testing.T) {
	const kills = 5 + 15/store.Thinning
	rng := rand.New(rand.NewPCG(1, 1))
	dir := t.TempDir()
	before := make(map[claim]bool)
	first, confirmed := uint64(1), 0
	for range kills {
		durable := runVictim(t, dir, first, 10+rng.IntN(200))
		confirmed += durable
		r, err := recoverFrom(store.Dir(dir), store.Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[claim]bool)
		last := first
		for h := range r.holds {
			n := binary.BigEndian.Uint64(r.mails[h.seq].content.Body)
			got[claim{n, h.queue}] = true
			last = max(last, n)
		}
		if err := r.store.Close(); err != nil {
			t.Fatal(err)
		}
		// The number before the last may be settled or not.
		commits := max(2*int(last-first), 1)
		ok := false
		for _, n := range []int{commits, commits + 1} {
			want := maps.Clone(before)
			maps.Copy(want, afterCommits(first, n))
			ok = ok || n >= durable && maps.Equal(got, want)
		}
		if !ok {
			t.Fatalf("got %d claims up to number %d after a kill, want those after at least %d commits from number %d on", len(got), last, durable, first)
		}
		before, first = got, last+1
	}
	t.Logf("%d kills, %d confirmed", kills, confirmed)
	if confirmed < 100*kills {
		t.Errorf("got %d commits confirmed, want at least %d: this test shows nothing", confirmed, 100*kills)
	}
}

// runVictim kills a victim after a number of lines, and returns the number in the last line.
func runVictim(t *testing.T, dir string, first uint64, lines int) (durable int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimDir+"="+dir, fmt.Sprintf("%s=%d", victimFirst, first))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	for i := 0; ; i++ {
		line, err := in.ReadString('\n')
		if err != nil {
			break
		}
		if _, err := fmt.Sscan(line, &durable); err != nil {
			t.Errorf("the victim wrote %q, want a number", line)
		}
		if i == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() {
		t.Fatalf("got %v, want the process killed", err)
	}
	return durable
}
