package flow

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/internal/rabbit"
)

// refusal is a flow, or an exchange of the file, that the broker does not accept. It is tried again, because somebody may migrate the queue,
// or create what is missing.
type refusal struct {
	flow   config.Flow // if it is a flow
	err    error
	since  time.Time
	tries  int
	due    time.Time // when it is tried again
	logged time.Time
}

// refusalPause is the pause between two tries.
var refusalPause = rabbit.Backoff{Min: 2 * time.Second, Max: time.Minute}

// refusalLog is how often a refusal that has not changed is logged.
const refusalLog = 10 * time.Minute

// refused returns a refusal after one try, or after one more.
func (r *Runner) refused(before *refusal, what, name string, f config.Flow, err error) *refusal {
	now := time.Now()
	next := refusal{flow: f, since: now}
	if before != nil {
		next = *before
	}
	changed := next.err == nil || next.err.Error() != err.Error()
	next.err, next.tries = err, next.tries+1
	next.due = now.Add(refusalPause.Delay(next.tries))
	switch {
	case changed:
		r.Logger.Error("the broker refuses the "+what+"; everything else runs, and rehop keeps trying", what, name, "err", err)
		next.logged = now
	case now.Sub(next.logged) >= refusalLog:
		r.Logger.Warn("the broker still refuses the "+what, what, name, "since", next.since.Round(time.Second), "tries", next.tries, "err", err)
		next.logged = now
	}
	return &next
}

// tolerance is which refusals do not keep a generation from starting. Nil functions tolerate nothing.
type tolerance struct {
	flow     func(config.Flow) bool
	exchange func(rehop.Exchange) bool
}

// all is the tolerance of a start: what is not refused runs meanwhile.
func all() tolerance {
	return tolerance{func(config.Flow) bool { return true }, func(rehop.Exchange) bool { return true }}
}

// asNow is the tolerance of a reload: what is refused now, and has not changed, may stay so. Everything else is an error, so that a reload
// changes everything or nothing.
func (g *generation) asNow() tolerance {
	return tolerance{
		func(f config.Flow) bool {
			now := g.refused[f.Name]
			return now != nil && reflect.DeepEqual(now.flow, f)
		},
		func(x rehop.Exchange) bool {
			return g.without[x.Name] != nil && slices.ContainsFunc(g.file.Exchanges, func(now rehop.Exchange) bool { return reflect.DeepEqual(now, x) })
		},
	}
}

// RetryAt is when Retry is due, and whether it is at all.
func (r *Runner) RetryAt() (at time.Time, due bool) {
	for _, refusals := range []map[string]*refusal{r.current.refused, r.current.without} {
		for _, one := range refusals {
			if !due || one.due.Before(at) {
				at, due = one.due, true
			}
		}
	}
	return at, due
}

// Retry tries again what the broker has refused, if it is due. Like Reload, it is called by the goroutine of Start.
func (r *Runner) Retry(ctx context.Context) {
	g, now := r.current, time.Now()
	if !(Status{Broker: g.client.State()}).connected() {
		for _, refusals := range []map[string]*refusal{g.refused, g.without} {
			for _, one := range refusals {
				one.due = now.Add(refusalPause.Min) // a flow that begins without a broker is refused out of sight
			}
		}
		return
	}
	for _, name := range slices.Sorted(maps.Keys(g.refused)) {
		if one := g.refused[name]; !one.due.After(now) {
			r.retryFlow(ctx, g, name, one)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.without)) {
		if one := g.without[name]; !one.due.After(now) && r.retryExchange(ctx, g, name, one) {
			return // there is another generation now
		}
	}
}

func (r *Runner) retryFlow(ctx context.Context, g *generation, name string, before *refusal) {
	begun, err := begin(ctx, g, before.flow)
	switch {
	case ctx.Err() != nil && err != nil:
		return
	case err != nil:
		g.refused[name] = r.refused(before, "flow", name, before.flow, explainFlow(g.file.Path, before.flow, err))
	default:
		delete(g.refused, name)
		g.flows[name] = begun
		r.Logger.Info("the broker accepts the flow now", "flow", name, "tries", before.tries+1)
	}
	g.watch.follow(g)
}

// retryExchange declares an exchange that was refused. If that succeeds, all flows move to a client that declares it at every connection.
func (r *Runner) retryExchange(ctx context.Context, g *generation, name string, before *refusal) (moved bool) {
	err := r.declare(ctx, g.file, name)
	if err == nil {
		tolerated := g.asNow()
		tolerated.exchange = func(x rehop.Exchange) bool { return x.Name != name && g.asNow().exchange(x) }
		err = r.move(ctx, g.file, tolerated)
	}
	if err == nil {
		r.Logger.Info("the broker accepts the exchange now", "exchange", name, "tries", before.tries+1)
		return true
	}
	if ctx.Err() == nil {
		g.without[name] = r.refused(before, "exchange", name, config.Flow{}, explainExchange(name, err))
		g.watch.follow(g)
	}
	return false
}

// declare declares one exchange of a file.
func (r *Runner) declare(ctx context.Context, file *config.File, name string) error {
	settings, err := r.Connect(file)
	if err != nil {
		return err
	}
	settings.QueueType, settings.Logger = file.QueueType, r.Logger
	for _, x := range file.Exchanges {
		if x.Name == name {
			settings.Exchanges = []rehop.Exchange{x}
		}
	}
	client, err := rehop.Open(ctx, settings)
	if err != nil {
		return err
	}
	return client.Close(ctx)
}

// openClient opens a client for a file, without exchanges that the broker refuses, if that is tolerated.
func (r *Runner) openClient(ctx context.Context, file *config.File, tolerated tolerance) (*generation, error) {
	exchanges, without := file.Exchanges, make(map[string]*refusal)
	for {
		g, err := r.openWith(ctx, file, exchanges)
		refused, ok := errors.AsType[*rehop.TopologyError](err)
		if !ok {
			if g != nil {
				g.without = without
			}
			return g, err
		}
		// What is not in the list is what all exchanges in it need.
		needs := func(x rehop.Exchange) bool { return x.Name == refused.Name }
		if !slices.ContainsFunc(exchanges, needs) {
			needs = func(rehop.Exchange) bool { return true }
		}
		var left []rehop.Exchange
		for _, x := range exchanges {
			switch {
			case !needs(x):
				left = append(left, x)
			case tolerated.exchange == nil || !tolerated.exchange(x):
				return nil, explainExchange(x.Name, err)
			default:
				without[x.Name] = r.refused(r.refusedBefore(x.Name), "exchange", x.Name, config.Flow{}, explainExchange(x.Name, err))
			}
		}
		exchanges = left
	}
}

// refusedBefore is the refusal of an exchange by the current generation, if there is one: it was logged.
func (r *Runner) refusedBefore(exchange string) *refusal {
	if r.current == nil {
		return nil
	}
	return r.current.without[exchange]
}
