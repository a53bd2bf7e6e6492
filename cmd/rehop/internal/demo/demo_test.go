package demo

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
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

// The user replays, turns the gateway off and on, and quits; the picture fits a terminal of 80 columns and 24 lines.
func TestKeysAndPicture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, screen := make(chan byte), &frames{t: t}
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
		sums, err := Run(t.Context(), Options{Out: screen, Keys: keys, Seed: 7})
		if err != nil {
			t.Fatal(err)
		}
		if !sums.Balanced() || sums.Replayed == 0 {
			t.Errorf("%+v: want sums that balance, and a replay", sums)
		}
		if screen.drawn < 200 {
			t.Errorf("%d frames in 27 seconds, want ten in each", screen.drawn)
		}
	})
}

// frames sees whether each frame fits the terminal.
type frames struct {
	t     *testing.T
	drawn int
}

func (f *frames) Write(text []byte) (int, error) {
	frame, is := strings.CutPrefix(string(text), home)
	if !is {
		return len(text), nil
	}
	f.drawn++
	lines := strings.Split(strings.TrimSuffix(frame, toFoot), "\r\n")
	if n := len(lines); n > 24 { // the last one is empty: the cursor is there
		f.t.Errorf("a frame of %d lines", n)
	}
	for _, line := range lines {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, toEnd)); n >= 80 {
			f.t.Errorf("a line of %d columns: %q", n, line)
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
