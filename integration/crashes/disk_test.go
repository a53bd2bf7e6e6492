package crashes

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/lab"
)

const (
	diskSize    = "32m"
	diskReserve = 4 << 20
)

// fillDisk: somebody else fills the disk, to the reserve or wholly. Publishers are blocked, consumers continue, and work
// resumes when there is room. Every other time the broker is killed and started again while the disk is full.
func fillDisk(t *testing.T, seed uint64) tally {
	mount := smallDisk(t)
	b := newBroker(t, filepath.Join(mount, "data"))
	b.orders.DiskReserve = diskReserve
	ballast := filepath.Join(mount, "ballast")
	b.serve()
	w := newTraffic(t, b, seed)
	w.start()
	n := times(4, 12)
	kills, refusals := 0, 0
	var resumed []time.Duration
	for i := range n {
		w.works(b.process())
		w.stopConsuming()
		w.books.setLimit(math.MaxInt) // there is always somebody who publishes
		w.shows("a backlog", func() bool { return w.books.pending > backlog/6 })
		leave := int64(diskReserve / 2)
		if i%4 >= 2 {
			leave = 0
		}
		blocks := w.books.count().blocks
		fill(t, mount, ballast, leave)
		w.shows("connection.blocked on a full disk", func() bool { return w.books.counts.blocks > blocks })
		w.takeOnly = true
		w.startConsuming()
		answers := w.books.count().answers
		w.shows("answers while publishers are blocked", func() bool { return w.books.counts.answers >= answers+200 || w.books.pending == 0 })
		w.stopConsuming()
		w.takeOnly = false
		w.books.setLimit(backlog)
		if i%2 == 1 {
			b.kill()
			kills++
			if p := b.start(b.orders); !p.hasServed() {
				refusals++
				if !bytes.Contains([]byte(b.logEnd()), []byte("no space left")) {
					t.Errorf("the broker does not start on a full disk and does not say why:\n%s", b.logEnd())
				}
			}
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		freed := time.Now()
		if !b.process().hasServed() {
			b.serve()
		}
		w.startConsuming()
		confirmed := w.books.count().confirmed
		w.shows("a confirm after there was room", func() bool { return w.books.counts.confirmed > confirmed+window })
		resumed = append(resumed, time.Since(freed))
	}
	result := w.finish()
	result.kills, result.diskFaults = kills+1, n
	t.Logf("disk full %d times, %d kills while it was, %d of the starts refused; %d confirmed, %d in doubt; longest way back %v",
		n, kills, refusals, result.confirmed, result.unknown, slices.Max(resumed).Round(time.Millisecond))
	return result
}

// smallDisk mounts a file system of a few megabytes.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+diskSize, "tmpfs", dir).CombinedOutput(); err != nil {
		lab.Lack(t, "a small disk can be mounted only by root: mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v: %s", dir, err, out)
		}
	})
	return dir
}

// fill leaves n bytes free, or none.
func fill(t *testing.T, mount, ballast string, leave int64) {
	t.Helper()
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	piece := make([]byte, 64<<10)
	for {
		var s syscall.Statfs_t
		if err := syscall.Statfs(mount, &s); err != nil {
			t.Fatal(err)
		}
		if free := int64(s.Bavail) * s.Bsize; leave > 0 && free <= leave {
			return
		}
		if _, err := f.Write(piece); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// failSync: one fdatasync of the log fails, and those after it do not. The broker must not try again, for the kernel
// may have thrown away what it could not write.
func failSync(t *testing.T, seed uint64) tally { return failCall(t, seed, "fdatasync") }

// failWrite: one write to the log fails.
func failWrite(t *testing.T, seed uint64) tally { return failCall(t, seed, "pwrite64") }

func failCall(t *testing.T, seed uint64, call string) (total tally) {
	if _, err := exec.LookPath("strace"); err != nil {
		lab.Lack(t, "errors of the disk are injected by strace, run scripts/services up clients: %v", err)
	}
	for i := range times(1, 5) {
		total.add(failOnce(t, seed+uint64(i), call))
	}
	return total
}

func failOnce(t *testing.T, seed uint64, call string) tally {
	b := newBroker(t, "")
	b.orders.SegmentSize = 64 << 20 // one segment, which strace watches
	ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
	defer cancel()
	trace := newTracer(b, call, 20+int(seed%50))
	b.before = trace.command()
	p := b.serve()
	probe := &probe{broker: b, script: script{seed}}
	if err := probe.run(ctx); err != nil {
		t.Fatalf("%v\n%s", err, b.logEnd())
	}
	b.mustFail(p)
	if want := "nothing is confirmed any more"; !bytes.Contains([]byte(b.logEnd()), []byte(want)) {
		t.Errorf("the broker's log does not say %q:\n%s", want, b.logEnd())
	}
	before, err := trace.read()
	if err != nil {
		t.Fatal(err)
	}
	late := probe.confirmedAfter(before)
	if late > 0 {
		t.Errorf("%d messages were confirmed that had been sent after the last %s that succeeded", late, call)
	}
	b.before = nil
	b.serve()
	lost, err := probe.missing()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range lost[:min(5, len(lost))] {
		t.Errorf("%s was confirmed and is lost", id)
	}
	b.stop()
	b.checkStore()
	confirmed := probe.count()
	t.Logf("%s failed after %d confirmed messages, %d were in doubt", call, confirmed, len(probe.messages)-confirmed)
	if confirmed == 0 {
		t.Error("INCONCLUSIVE: nothing was confirmed before the failure")
	}
	return tally{confirmed: confirmed, unknown: len(probe.messages) - confirmed, audit: audit{lost: len(lost), other: late}, diskFaults: 1}
}
