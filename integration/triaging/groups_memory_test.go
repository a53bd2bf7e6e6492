//go:build !race

package triaging

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/triage"
)

// A count by groups does not read the groups, which have samples of up to 4 KiB. The test is not parallel, because it measures the memory of the process.
func TestSQLiteCountManyGroups(t *testing.T) {
	ctx := kit.Timeout(t, limit)
	store, closeStore, err := openStore(ctx, openSQLite(t))
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore()
	const n, most = 500, 1 << 20
	digits := strings.NewReplacer("0", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6", "g", "7", "h", "8", "i", "9", "j") // numbers would not make groups
	var all []triage.Message
	for i := range n {
		all = append(all, triage.Message{ID: fmt.Sprint(i), Queue: queue, FailedQueue: queue + ".failed", FailedAt: time.Unix(int64(i), 0),
			Error: "no customer " + digits.Replace(fmt.Sprint(i)) + strings.Repeat(" refused", 500)})
	}
	if err := store.Put(ctx, all); err != nil {
		t.Fatal(err)
	}
	q, err := triage.ParseQuery("state:failed", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := store.Search(ctx, q, triage.Page{Limit: 1})
	runtime.ReadMemStats(&after)
	if err != nil || r.Count != n {
		t.Fatalf("got %d messages, %v, want %d", r.Count, err, n)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > most {
		t.Errorf("one message of a list, and the count of %d in %d groups, take %d bytes of memory, want at most %d", n, n, used, most)
	}
}
