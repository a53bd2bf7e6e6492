package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/conformance/await"
)

// The local console groups what fails, counts what the user has discarded, and leaves nothing behind.
func TestLocalConsole(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	silent := slog.New(slog.DiscardHandler)
	server := &broker.Server{Logger: silent}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := rehop.Open(t.Context(), rehop.Config{Dial: server.Dial, Reports: true, Logger: silent})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(context.Background())
	if _, err := client.Subscribe(t.Context(), rehop.Subscriber{Queue: "orders", Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
		return errors.New("no such phone number")
	})}); err != nil {
		t.Fatal(err)
	}
	c, err := OpenLocalConsole(t.Context(), server, silent)
	if err != nil {
		t.Fatal(err)
	}
	page := func(path string) string {
		answer, err := http.Get(c.URL() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("GET %s: got %s, %v\n%s", path, answer.Status, err, text)
		}
		return string(text)
	}
	if err := client.Publish(t.Context(), rehop.Message{Key: "orders", ID: "1", Body: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	await.True(t, time.Minute, 20*time.Millisecond, "the failure is in a group", func() bool { return strings.Contains(page("groups"), "no such phone number") })
	for _, path := range []string{"", "queues", "topology", "doctor", "audit", "settings"} {
		page(path)
	}
	if n, err := c.Removed(t.Context()); n != 0 || err != nil {
		t.Errorf("got %d, %v, want nothing removed", n, err)
	}
	form := strings.NewReader("where=queue%3Dorders&count=1")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL()+"discard", form)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if n, err := c.Removed(t.Context()); answer.StatusCode != http.StatusOK || n != 1 || err != nil {
		t.Errorf("got %s, %d and %v, want one message removed", answer.Status, n, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get(c.URL()); err == nil {
		t.Error("it answers after it was closed")
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want nothing left behind", left, err)
	}
}
