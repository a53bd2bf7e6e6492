package crashes

import (
	"fmt"
	"os"
	"testing"

	"github.com/rehop/rehop/internal/conformance/seeds"
)

// summary is what TestCrashes has found, for TestMain to print last.
var summary *tally

func TestMain(m *testing.M) {
	if text := os.Getenv(brokerRole); text != "" {
		os.Exit(beBroker(text))
	}
	code := m.Run()
	if summary != nil {
		fmt.Println(summary)
	}
	os.Exit(code)
}

// TestCrashes breaks the broker in each way and audits it. REHOP_FAULTS=long strikes more often, REHOP_FAULTS_SEED
// repeats a run's schedule.
func TestCrashes(t *testing.T) {
	seed := seeds.Of(t)
	total := &tally{seed: seed}
	t.Cleanup(func() { summary = total })
	for _, crash := range []struct {
		name string
		run  func(t *testing.T, seed uint64) tally
	}{
		{"Kill", killAtRandom},
		{"KillDelivery", killUnderDelivery},
		{"Points", exitAtPoints},
		{"Restart", restartInOrder},
		{"DiskFull", fillDisk},
		{"FailedSync", failSync},
		{"FailedWrite", failWrite},
	} {
		t.Run(crash.name, func(t *testing.T) { total.add(crash.run(t, seed)) })
	}
}

// tally is what the line at the end shows.
type tally struct {
	seed      uint64
	confirmed int
	unknown   int
	audit
	kills, exits, restarts, diskFaults int
}

func (a *tally) add(b tally) {
	a.confirmed += b.confirmed
	a.unknown += b.unknown
	a.audit.add(b.audit)
	a.kills += b.kills
	a.exits += b.exits
	a.restarts += b.restarts
	a.diskFaults += b.diskFaults
}

func (a *tally) String() string {
	return fmt.Sprintf("confirmed=%d lost=%d torn=%d returned=%d doubled=%d spoilt=%d unknown=%d kills=%d exits=%d restarts=%d disk-faults=%d seed=%d",
		a.confirmed, a.lost, a.torn, a.returned, a.doubled, a.spoilt, a.unknown, a.kills, a.exits, a.restarts, a.diskFaults, a.seed)
}

// times is how often a fault strikes.
func times(short, many int) int {
	if os.Getenv("REHOP_FAULTS") == "long" {
		return many
	}
	return short
}
