package layouts

import (
	"encoding/json"
	"testing"
	"time"
)

// Nothing that can be in a header brings the reading of x-death down, and no count is believed beyond all measure.
func FuzzDeaths(f *testing.F) {
	for _, header := range []string{
		"null", "7", `"x"`, "[]", "[null]", "[[]]", `[{}]`, `[{"queue":"q"}]`, `[{"queue":"q","reason":"expired","count":3,"exchange":"x","routing-keys":["k"]}]`,
		`[{"queue":"q","count":1e300},{"queue":"q","count":-1e300},{"queue":"q","count":"5"}]`, `[{"queue":7,"count":[],"routing-keys":{}}]`, `[{"queue":"q@retry","routing-keys":[7]}]`,
	} {
		f.Add([]byte(header))
	}
	f.Fuzz(func(t *testing.T, header []byte) {
		var value any
		if json.Unmarshal(header, &value) != nil {
			return
		}
		headers := map[string]any{"x-death": value}
		all := deathsOf(headers, func(death) bool { return true })
		if all < 0 || all > maxFailures {
			t.Errorf("%s: got %d, want 0 to %d", header, all, maxFailures)
		}
		if some := deathsOf(headers, func(d death) bool { return d.queue == "q" }); some < 0 || some > all {
			t.Errorf("%s: got %d of %d", header, some, all)
		}
		if newest, ok := newestDeath(headers, ""); ok && newest.queue != "" {
			if in, found := newestDeath(headers, newest.queue); !found || in != newest {
				t.Errorf("%s: the newest is %+v, and in its queue %+v", header, newest, in)
			}
		}
	})
}

func TestDeathRecord(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	want := []death{{queue: "a", reason: expired, exchange: "x", key: "k", count: 2}, {queue: "b", reason: rejected, count: 1}}
	record := deathRecord(death{queue: "a", reason: expired, exchange: "x", key: "k", count: 2, at: at}, death{queue: "none"}, death{queue: "b", reason: rejected, count: 1})
	got := deathsIn(record)
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, want %+v: what counts nothing is left out", got, want)
	}
	if record := deathRecord(death{queue: "a"}, death{queue: "b", count: -1}); record != nil {
		t.Errorf("no failures: got %v, want no header", record)
	}
}
