package consume

import (
	"testing"
	"time"

	"github.com/rehop/rehop/internal/layouts"
)

func TestAdmit(t *testing.T) {
	t.Parallel()
	const limit = 5
	for name, test := range map[string]struct {
		arrival Arrival
		fixed   bool // the consumer cannot be replaced
		want    Admission
	}{
		"first delivery":                  {Arrival{}, false, Admission{Handle, 0}},
		"first delivery, careful":         {Arrival{Careful: true}, false, Admission{Handle, 0}},
		"below suspicion":                 {Arrival{Counted: 2}, false, Admission{Handle, 2}},
		"suspect":                         {Arrival{Counted: 3}, false, Admission{Isolate, 3}},
		"suspect by both counts":          {Arrival{Recorded: 1, Counted: 2}, false, Admission{Isolate, 3}},
		"suspect that came alone":         {Arrival{Counted: 3, Careful: true}, false, Admission{HandleAlone, 3}},
		"suspect, consumer is fixed":      {Arrival{Counted: 4}, true, Admission{Handle, 4}},
		"at the limit":                    {Arrival{Counted: 5}, false, Admission{GiveUp, 5}},
		"at the limit, alone":             {Arrival{Counted: 5, Careful: true}, false, Admission{GiveUp, 5}},
		"at the limit, consumer is fixed": {Arrival{Recorded: 5}, true, Admission{GiveUp, 5}},
		"beyond the limit by its record":  {Arrival{Recorded: 9}, false, Admission{GiveUp, 9}},
		"count of another queue":          {Arrival{Uncertain: true, Recorded: 9}, false, Admission{Republish, 9}},
		"not counted, first time":         {Arrival{Uncounted: true}, false, Admission{Republish, 1}},
		"not counted, below the limit":    {Arrival{Uncounted: true, Recorded: 3}, false, Admission{Republish, 4}},
		"not counted, at the limit":       {Arrival{Uncounted: true, Recorded: 4}, false, Admission{GiveUp, 5}},
		"refused":                         {Arrival{Refused: true}, false, Admission{Refuse, 0}},
		"refused, at the limit":           {Arrival{Refused: true, Counted: 5}, false, Admission{Refuse, 5}},
		"refused, not counted":            {Arrival{Refused: true, Uncounted: true}, false, Admission{Republish, 1}},
		"refused, not counted, at limit":  {Arrival{Refused: true, Uncounted: true, Recorded: 4}, false, Admission{Refuse, 5}},
		"refused and early":               {Arrival{Refused: true, Early: time.Hour}, false, Admission{Refuse, 0}},
		"early":                           {Arrival{Early: time.Hour}, false, Admission{WaitOn, 0}},
		"early by less than is measured":  {Arrival{Early: layouts.DelayUnit}, false, Admission{Handle, 0}},
		"late":                            {Arrival{Early: -time.Hour}, false, Admission{Handle, 0}},
		"early, at the limit":             {Arrival{Early: time.Hour, Counted: 5}, false, Admission{WaitOn, 5}},
		"early, count of another queue":   {Arrival{Early: time.Hour, Uncertain: true}, false, Admission{Republish, 0}},
	} {
		if got := Admit(test.arrival, limit, !test.fixed); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}
