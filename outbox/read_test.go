package outbox

import (
	"strings"
	"testing"

	"github.com/rehop/rehop/dialect"
)

// Whatever a look finds has room.
func TestReadNoMoreThanHasRoom(t *testing.T) {
	lanes := newLanes()
	for _, room := range []int{-1, 0, 1, 1000, 1 << 20, 32 << 20, 1 << 40} {
		for n := 1; n <= len(lanes); n++ {
			var reads []laneRead
			for _, l := range lanes[:n] {
				reads = append(reads, laneRead{lane: l, limit: 200})
			}
			if size := inlineFor(room, reads); size*n*200 > max(room, 0) {
				t.Errorf("%d lanes with room for %d bytes: got %d rows with up to %d bytes each", n, room, n*200, size)
			}
		}
	}
	if got := inlineFor(32<<20, []laneRead{{limit: 200}}); got != inline {
		t.Errorf("one lane and much room: got %d, want %d", got, inline)
	}
}

// All that can be large is read along only if it is small.
func TestReadAlong(t *testing.T) {
	r := newRun(Relay{Client: &scripted{}, Dialect: dialect.SQLite}.withDefaults())
	query := newReader(r, newLanes()).query(512)
	for _, column := range []string{"properties", "headers", "body"} {
		if along, guarded := strings.Count(query, column), strings.Count(query, "CASE WHEN size <= 512 THEN "+column+" END"); along == 0 || along != guarded {
			t.Errorf("%s: read %d times, %d of them only if it is small; want all", column, along, guarded)
		}
	}
}
