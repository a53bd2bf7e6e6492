package cli

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/outbox"
)

// A count that has reached the limit shows that there may be more.
func TestBacklogCapped(t *testing.T) {
	const most = outbox.MaxCounted
	for _, tt := range []struct {
		backlog outbox.Backlog
		table   string
		capped  bool
	}{
		{outbox.Backlog{Ready: most - 1, Oldest: time.Second}, "99999 0 1s 0 0 0", false},
		{outbox.Backlog{Ready: most, Oldest: time.Minute}, "100000+ 0 1m0s 0 0 0", true},
		{outbox.Backlog{Retrying: most}, "0 100000+ 0s 0 0 0", true},
		{outbox.Backlog{Delayed: most}, "0 0 0s 100000+ 0 0", true},
		{outbox.Backlog{SetAside: most}, "0 0 0s 0 100000+ 0", true},
		{outbox.Backlog{Kept: most}, "0 0 0s 0 0 100000+", true},
	} {
		around, out, _ := terminal("", nil)
		c := &command{Surroundings: around}
		if err := (&store{command: c}).printBacklog(3, 3, tt.backlog); err != nil {
			t.Fatal(err)
		}
		_, row, _ := strings.Cut(out.String(), "\n")
		if got := strings.Join(strings.Fields(row), " "); got != tt.table {
			t.Errorf("%+v: got %q, want %q", tt.backlog, got, tt.table)
		}
		out.Reset()
		c.json = true
		if err := (&store{command: c}).printBacklog(3, 3, tt.backlog); err != nil {
			t.Fatal(err)
		}
		var got backlog
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		b := tt.backlog
		if want := (backlog{3, 3, b.Ready, b.Retrying, b.Delayed, b.SetAside, b.Kept, tt.capped, b.Oldest.Seconds()}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// Rows are named by both of their parts.
func TestRows(t *testing.T) {
	row := outbox.RowID{Number: 12, Nonce: 0x3fa91c}
	for text, want := range map[string]outbox.RowID{"": {}, "0": {}, "12": {Number: 12}, row.String(): row, "9-0": {Number: 9}} {
		if got, err := rowAfter(text); err != nil || got != want {
			t.Errorf("--after %q: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"-1", "twelve", "12-", "12-x", "-3fa91c", "12-3fa91c-1"} {
		if got, err := rowAfter(text); codeOf(t.Context(), err) != exitUsage {
			t.Errorf("--after %q: got %v, %v, want that it is refused", text, got, err)
		}
	}
	if got, err := rowsOf([]string{row.String(), "9-0"}); err != nil || !reflect.DeepEqual(got, []outbox.RowID{row, {Number: 9}}) {
		t.Errorf("got %v, %v, want both rows", got, err)
	}
	for text, want := range map[string]string{"12": "is only a number", "-1": "is only a number", "twelve": "is not a row", "12-": "is not a row", "": "is not a row"} {
		got, err := rowsOf([]string{row.String(), text})
		if codeOf(t.Context(), err) != exitUsage || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "as rehop outbox ls prints it") {
			t.Errorf("%q: got %v, %v, want that it %s", text, got, err, want)
		}
	}
}
