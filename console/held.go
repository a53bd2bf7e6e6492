package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/topology"
)

// heldView is the messages of an ordered queue that wait for others of their key.
type heldView struct {
	Queues   []string // that are handled in order, if that is known
	Queue    string
	Messages []admin.Held
	More     bool
	Total    int
	NoAnswer bool // no process handles the queue
	Skipped  string
	MayAct   bool
}

const (
	// maxHeld is how many held messages a page shows.
	maxHeld = 500
	// heldTimeout is how long the process that handles a queue may take to answer.
	heldTimeout = 5 * time.Second
)

func (x *call) held() error { return x.showHeld(x.r.URL.Query().Get("queue"), "") }

func (x *call) showHeld(queue, skipped string) error {
	v := heldView{Queue: queue, Skipped: skipped, MayAct: x.may(Operator)}
	a, ctx, end, err := x.broker()
	if err != nil {
		return err
	}
	defer end()
	live, err := a.Live(ctx)
	if err != nil && !errors.Is(err, admin.ErrNoManagement) {
		return err
	}
	v.Queues = orderedQueues(live)
	if queue == "" {
		return x.show("held", "Held messages", v)
	}
	asking, cancel := context.WithTimeout(ctx, heldTimeout)
	defer cancel()
	v.Messages, v.Total, err = a.Held(asking, queue)
	if v.NoAnswer = errors.Is(err, admin.ErrNoAnswer); err != nil && !v.NoAnswer {
		return err
	}
	v.Messages = v.Messages[:min(len(v.Messages), maxHeld)]
	for i := range v.Messages {
		m := &v.Messages[i]
		m.Key, m.Error = x.console.maskText(m.Key), x.console.maskText(m.Error) // a key can be from the body
	}
	v.More = v.Total > len(v.Messages)
	return x.show("held", "Held messages", v)
}

// orderedQueues are the queues that have a held queue.
func orderedQueues(live topology.Live) (names []string) {
	for _, q := range live.Queues {
		if name, held := strings.CutSuffix(q.Name, ".held"); held {
			if _, exists := live.Queue(name); exists {
				names = append(names, name)
			}
		}
	}
	return names
}

// skip lets the messages continue that wait for a message.
func (x *call) skip() error {
	queue, errQueue := url.QueryUnescape(x.r.PostForm.Get("queue"))
	id, errID := url.QueryUnescape(x.r.PostForm.Get("pick"))
	if errQueue != nil || errID != nil || queue == "" || id == "" {
		return &fault{status: http.StatusBadRequest, text: "The form needs a queue and the id of a message."}
	}
	a, ctx, end, err := x.broker()
	if err != nil {
		return err
	}
	if err := x.record("held.skip", queue, map[string]string{"id": exactText(id)}); err != nil {
		end()
		return err
	}
	err = a.Skip(ctx, queue, id)
	end()
	if err != nil {
		return err
	}
	x.logChange("messages were changed", "action", "skip", "queue", queue, "id", id)
	return x.showHeld(queue, id)
}
