package admin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// tryExpires is when the broker deletes a queue that was declared to try its arguments, should this process die before it does.
const tryExpires = time.Minute

// try tries the wanted arguments: the broker may refuse them, and the old queue must not be gone by then. Once the new queue exists, or has been
// tried in this run, there is nothing to try.
func (m *migration) try(ctx context.Context) error {
	if m.state.wanted || m.tried {
		return nil
	}
	err := m.admin.tryQueue(ctx, m.want)
	var d *rabbit.DeclareError
	if errors.As(err, &d) && !errors.Is(err, errNotTried) {
		return fmt.Errorf("the broker refuses a queue with %s: %s (%d); nothing has been changed. Correct the arguments in the plan, or what the broker says, and run it again",
			arguments(m.want.Args), d.Reason, d.Code)
	}
	m.tried = err == nil
	return err
}

// errNotTried: the user may not declare the queue with which arguments are tried.
var errNotTried = errors.New("the arguments were not tried: give the user configure permission for queues " + tryPrefix + "*")

// tryQueue declares a queue that lasts under another name, and deletes it. If the broker refuses it, the error is a *rabbit.DeclareError for the queue
// itself.
func (a *Admin) tryQueue(ctx context.Context, want topology.Queue) error {
	q := want
	q.Name = tryPrefix + rabbit.NewID()
	q.Args = maps.Clone(want.Args)
	if q.Args == nil {
		q.Args = make(topology.Args)
	}
	// A time that the plan sets is tried, too: the broker may not accept it.
	const most = int(tryExpires / time.Millisecond)
	if own, set := number(q.Args["x-expires"]); q.Args["x-expires"] == nil || set && own > most {
		q.Args["x-expires"] = int64(most)
	}
	err := a.write.Declare(ctx, topology.Plan{Queues: []topology.Queue{q}})
	var d *rabbit.DeclareError
	if errors.As(err, &d) && d.Code == accessRefused && strings.Contains(d.Reason, q.Name) {
		return fmt.Errorf("%w: %w", errNotTried, err)
	}
	if errors.As(err, &d) {
		refused := *d
		refused.Name, refused.Reason, refused.Hint = want.Name, strings.ReplaceAll(d.Reason, q.Name, want.Name), "correct this in the plan, or what the broker names"
		return &refused
	}
	if err != nil {
		return err
	}
	longer, end := rabbit.Grace(ctx, unlockLimit)
	defer end()
	_, err = a.write.DeleteQueue(longer, q.Name, false)
	return err
}

// declare declares a part of what the migration needs. If the queue itself is refused because somebody else has declared it meanwhile, as it was
// before, the next look at the broker shows what to do.
func (m *migration) declare(ctx context.Context, plan topology.Plan) error {
	err := m.admin.write.Declare(ctx, plan)
	var d *rabbit.DeclareError
	if !errors.As(err, &d) || d.Code != preconditionFailed || d.Object != "queue" || d.Name != m.want.Name {
		return err
	}
	_, gone := m.admin.read.Inspect(ctx, m.want.Name)
	switch {
	case gone == nil:
		return errLook
	case errors.Is(queueError(gone), ErrNoQueue):
		return fmt.Errorf("%w; its messages are kept meanwhile, and the same migration goes on when the broker accepts the queue", err)
	}
	return errors.Join(err, gone)
}
