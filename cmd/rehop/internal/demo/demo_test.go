package demo

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
)

// A whole demo in virtual time: messages fail, are retried, go to the failed queue and are replayed, and the sums balance.
func TestEverythingIsAccountedFor(t *testing.T) {
	for name, length := range map[string]time.Duration{"usual": usualLength, "short": 2 * time.Second, "long": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				sums, err := Run(t.Context(), Options{For: length, Out: &out, Plain: true, Seed: 7})
				if err != nil {
					t.Fatal(err)
				}
				if !sums.Balanced() {
					t.Errorf("the sums do not balance: %+v", sums)
				}
				notification := sums.Queues[1]
				if sums.Messages == 0 || sums.Retries == 0 || sums.Replayed == 0 || notification.Failed == 0 {
					t.Errorf("%+v: want some of everything", sums)
				}
				if sums.Queues[0].Published != sums.Messages || notification.Published >= sums.Messages {
					t.Errorf("%+v: want a copy of each message for the summary, and fewer for the notification", sums)
				}
				for _, want := range []string{"goes down", "is back", "; waits for its retry", "; to the failed queue", "replay: ", "notified at attempt"} {
					if !strings.Contains(out.String(), want) {
						t.Errorf("the lines do not have %q:\n%s", want, out.String())
					}
				}
			})
		})
	}
}

// The user replays, turns the gateway off and on, and quits. The picture fits the terminal, uses its width, and nothing of it is cut.
func TestKeysAndPicture(t *testing.T) {
	for _, size := range [][2]int{{70, 20}, {80, 24}, {120, 40}} {
		t.Run(fmt.Sprintf("%dx%d", size[0], size[1]), func(t *testing.T) { testKeysAndPicture(t, size[0], size[1]) })
	}
}

func testKeysAndPicture(t *testing.T, width, height int) {
	synctest.Test(t, func(t *testing.T) {
		keys, screen := make(chan byte), &frames{t: t, width: width, height: height}
		go func() {
			for _, key := range []byte("?xo") {
				keys <- key
			}
			time.Sleep(12 * time.Second) // virtual
			keys <- keyReplay
			keys <- keyGateway
			time.Sleep(12 * time.Second)
			keys <- keyReplay
			time.Sleep(3 * time.Second)
			keys <- keyQuit
		}()
		sums, err := Run(t.Context(), Options{Out: screen, Keys: keys, Seed: 7, Size: func() (int, int) { return width, height }})
		if err != nil {
			t.Fatal(err)
		}
		if !sums.Balanced() || sums.Replayed == 0 {
			t.Errorf("%+v: want sums that balance, and a replay", sums)
		}
		if screen.drawn < 200 {
			t.Errorf("%d frames in 27 seconds, want ten in each", screen.drawn)
		}
		for _, want := range []string{"press r to replay", "q end and see the sums", "in queues ", "SMS DOWN"} {
			if !strings.Contains(screen.all.String(), want) {
				t.Errorf("no frame has %q, so that it is cut", want)
			}
		}
	})
}

// frames sees whether each frame fits the terminal.
type frames struct {
	t             *testing.T
	width, height int
	drawn         int
	all           strings.Builder
}

func (f *frames) Write(text []byte) (int, error) {
	frame, is := strings.CutPrefix(string(text), "\x1b[H")
	if !is {
		return len(text), nil
	}
	f.drawn++
	f.all.WriteString(frame)
	lines := strings.Split(strings.TrimSuffix(frame, "\x1b[J"), "\r\n")
	if n := len(lines); n != f.height { // the last one is empty: the cursor is there
		f.t.Errorf("a frame of %d lines on a terminal with %d", n, f.height)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\x1b[K")); n >= f.width {
			f.t.Errorf("a line of %d columns on a terminal with %d: %q", n, f.width, line)
		}
	}
	return len(text), nil
}

// The end of the context ends the demo, with all that was begun brought to its end.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second) // in the middle of an outage
		defer cancel()
		sums, err := Run(ctx, Options{For: time.Hour, Quiet: true, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		if !sums.Balanced() || sums.Messages == 0 {
			t.Errorf("%+v: want some messages, and sums that balance", sums)
		}
	})
}

// The user corrects a phone number in the console, and discards messages there. An edited message has another id, and is the same event.
func TestConsole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, screen := make(chan byte), &frames{t: t, width: 80, height: 24}
		desk := &desk{}
		go func() {
			time.Sleep(30 * time.Second) // virtual
			desk.edit(t)
			desk.discard(t)
			time.Sleep(5 * time.Second)
			keys <- keyQuit
		}()
		sums, err := Run(t.Context(), Options{Out: screen, Keys: keys, Seed: 7, Size: func() (int, int) { return 80, 24 },
			Console: func(ctx context.Context, server *broker.Server) (Console, error) {
				var err error
				desk.Admin, err = admin.Open(ctx, admin.Config{Dial: server.Dial})
				return desk, err
			}})
		if err != nil {
			t.Fatal(err)
		}
		if n := sums.Queues[1]; !sums.Balanced() || n.Removed == 0 || n.Removed != int(desk.removed.Load()) || sums.Replayed == 0 || desk.edited == 0 {
			t.Errorf("%+v: want sums that balance, %d removed messages, and replayed ones, of which %d were edited", sums, desk.removed.Load(), desk.edited)
		}
		if text := sums.String(); !strings.Contains(text, "REMOVED") || !strings.Contains(text, "published = handled + failed + removed") {
			t.Errorf("got:\n%s\nwant it to name removed messages", text)
		}
		for _, want := range []string{"http://127.0.0.1:49152/", "removed "} {
			if !strings.Contains(screen.all.String(), want) {
				t.Errorf("no frame has %q", want)
			}
		}
		if !desk.closed {
			t.Error("the console was not closed")
		}
	})
}

// desk stands in for the console.
type desk struct {
	*admin.Admin
	edited  int
	removed atomic.Int64
	closed  bool
}

func (d *desk) URL() string                          { return "http://127.0.0.1:49152/" }
func (d *desk) Removed(context.Context) (int, error) { return int(d.removed.Load()), nil }

func (d *desk) Close() error {
	d.closed = true
	d.Admin.Close()
	return nil
}

// edit replays a message with a wrong phone number under a new id, with the right one, as the console does.
func (d *desk) edit(t *testing.T) {
	done, err := d.Replay(t.Context(), Notification, admin.Options{Filter: admin.Filter{Text: errUnknown.Error()}, Limit: 1, Change: func(m *admin.Message) error {
		m.ID, m.Body = rehop.NewID(), []byte(strings.ReplaceAll(string(m.Body), "?", ""))
		return nil
	}})
	if err != nil {
		t.Error(err)
	}
	d.edited = done.Done
}

func (d *desk) discard(t *testing.T) {
	done, err := d.Discard(t.Context(), Notification, admin.Options{Limit: 2})
	if err != nil {
		t.Error(err)
	}
	d.removed.Store(int64(done.Done))
}

// The sums show what is lost, what is there twice, and what was never published.
func TestSums(t *testing.T) {
	b := newBooks()
	for _, id := range []string{"handled", "failed", "lost", "again", "both"} {
		b.expect(id, Notification)
	}
	for id, times := range map[string]int{"handled": 1, "again": 2, "both": 1} {
		b.entries[ticket{Notification, id}].done = times
	}
	got := b.sum(map[string][]string{Notification: {"failed", "both"}})
	want := QueueSums{Queue: Notification, Published: 5, Handled: 3, Failed: 1, Lost: 1, Twice: 2}
	if got.Queues[1] != want || got.Balanced() {
		t.Errorf("got %+v, balanced %t; want %+v, not balanced", got.Queues[1], got.Balanced(), want)
	}
	b = newBooks()
	b.entries[ticket{Summary, "nobody's"}] = &entry{done: 1}
	if got := b.sum(nil); got.Balanced() {
		t.Errorf("a message that nobody has published: got %+v, balanced", got.Queues[0])
	}
}
