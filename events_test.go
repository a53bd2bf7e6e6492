package rehop

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/consume"
)

func TestPublicResult(t *testing.T) {
	t.Parallel()
	for from, want := range map[consume.Outcome]Outcome{
		consume.Done: OutcomeDone, consume.Retried: OutcomeRetry, consume.Failed: OutcomeFailed,
		consume.Discarded: OutcomeDiscarded, consume.Postponed: OutcomePostponed,
		consume.Returned: OutcomeReturned, consume.Lost: OutcomeLost,
	} {
		err := errors.New("no")
		got := publicResult(consume.Result{Outcome: from, Err: err, Kind: "k", Took: time.Second, Delay: time.Minute})
		if want := (Result{Outcome: want, Err: err, Kind: "k", Took: time.Second, Delay: time.Minute}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", from, got, want)
		}
	}
}
