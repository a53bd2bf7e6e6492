package console

import (
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/admin"
)

// waitingView is the delay queues, and the messages of one of them if the user has asked for it.
type waitingView struct {
	Steps    []admin.QueueSize
	Step     string
	Messages []waitingRow
	More     bool
	Limit    int
}

type waitingRow struct {
	ID, Queue, Key, Kind, Error string
	Attempts                    int
	Due                         time.Time
}

// maxWaiting is how many messages of a delay queue are read. They are held for that time.
const maxWaiting = 200

func (x *call) waiting() error {
	v := waitingView{Step: x.r.URL.Query().Get("step"), Limit: maxWaiting}
	o, _, err := x.console.figures.get(x.r.Context())
	if err != nil {
		return err
	}
	v.Steps = o.DelayQueues
	if v.Step == "" {
		return x.show("waiting", "Waiting messages", v)
	}
	a, ctx, end, err := x.broker()
	if err != nil {
		return err
	}
	defer end()
	err = a.EachWaiting(ctx, v.Step, maxWaiting+1, func(m admin.Message) error {
		if v.More = len(v.Messages) == maxWaiting; v.More {
			return nil
		}
		text, _ := cut(x.console.maskText(m.Error), maxErrorShown)
		v.Messages = append(v.Messages, waitingRow{m.ID, m.Queue, m.Key, string(m.Kind), text, m.Attempts, m.Due})
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(v.Messages, func(m, n waitingRow) int { return m.Due.Compare(n.Due) })
	return x.show("waiting", "Waiting messages", v)
}

// StepName is the name of a step of a delay queue.
func (v waitingView) StepName(queue string) string { return stepName(queue) }

// stepName is the delay in the name of a step, as in 10s, or the name of another delay queue.
func stepName(queue string) string {
	if name, isStep := strings.CutPrefix(queue, "rehop.step."); isStep {
		return name
	}
	return queue
}
