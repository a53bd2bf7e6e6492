package admin

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/rehop/rehop/layout"
)

// layouts are those of the queues that an Admin looks after.
type layouts struct {
	usual   layout.Layout            // of queues that are not named
	byQueue map[string]layout.Layout // of those that are
	guessed bool                     // nobody has set the usual one, and those by queue differ
	all     []layout.Layout          // each of them once, the usual one first unless it is guessed
}

// layoutsOf reads them from a configuration.
func layoutsOf(config Config) (layouts, error) {
	l := layouts{usual: config.Layout, byQueue: maps.Clone(config.Layouts)}
	if l.usual != nil {
		l.all = []layout.Layout{l.usual}
		if err := l.usual.Validate(); err != nil {
			return l, fmt.Errorf("admin: Layout: %w", err)
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(l.byQueue)) {
		of := l.byQueue[queue]
		if of == nil {
			return l, fmt.Errorf("admin: Layouts: that of queue %q is nil; set layout.Native{} for the native one", queue)
		}
		if err := of.Validate(); err != nil {
			return l, fmt.Errorf("admin: Layouts: queue %q: %w", queue, err)
		}
		l.all = withLayout(l.all, of)
	}
	switch {
	case l.usual != nil:
	case len(l.all) == 1:
		l.usual = l.all[0]
	default:
		l.usual, l.guessed = layout.Native{}, len(l.all) > 1
	}
	if len(l.all) == 0 {
		l.all = []layout.Layout{l.usual}
	}
	return l, nil
}

// withLayout adds a layout, once. Layouts can have slices and maps, so they cannot be compared with ==.
func withLayout(all []layout.Layout, of layout.Layout) []layout.Layout {
	if slices.ContainsFunc(all, func(other layout.Layout) bool { return reflect.DeepEqual(of, other) }) {
		return all
	}
	return append(slices.Clip(all), of)
}

// withSubscriptions adds the layouts of the subscriptions in DoctorOptions.
func (l layouts) withSubscriptions(subscriptions map[string]DoctorSubscription) layouts {
	l.byQueue = maps.Clone(l.byQueue)
	for _, queue := range slices.Sorted(maps.Keys(subscriptions)) {
		of := subscriptions[queue].Layout
		if of == nil {
			continue
		}
		if l.byQueue == nil {
			l.byQueue = make(map[string]layout.Layout)
		}
		l.byQueue[queue] = of
		l.all = withLayout(l.all, of)
	}
	return l
}

// of is the layout of a queue. A queue that all queues of a layout share for failed messages has that layout.
func (l layouts) of(queue string) layout.Layout {
	if of, named := l.byQueue[queue]; named {
		return of
	}
	for _, of := range l.all {
		if of.FailedQueue(queue) == queue {
			return of
		}
	}
	return l.usual
}

// ErrNoLayout: the queues of Config.Layouts have different layouts, and nothing says which of them another queue has. Add the queue there, or set
// Config.Layout.
var ErrNoLayout = errors.New("nothing says which layout it has")

// known is the layout of a queue whose failed queue is used, which must not be guessed: there may be another one by another layout.
func (l layouts) known(queue string) (layout.Layout, error) {
	of := l.of(queue)
	if _, named := l.byQueue[queue]; !named && l.guessed && of.FailedQueue(queue) != queue {
		return nil, fmt.Errorf("queue %q: %w", queue, ErrNoLayout)
	}
	return of, nil
}

// mayConsume reports whether a subscription may consume a queue whose failed queue is there. A failed queue that all queues share says nothing of one of
// them, and nobody consumes the queues of rehop's own.
func (l layouts) mayConsume(queue string) bool {
	if _, named := l.byQueue[queue]; named {
		return true
	}
	return !shared(queue) && !layout.IsWaitQueue(queue) && !isCommon(l.of(queue), queue)
}

// sharesFailed reports whether another queue has the same failed queue, by its layout.
func (l layouts) sharesFailed(queue, failed string) bool {
	for other, of := range l.byQueue {
		if other != queue && of.FailedQueue(other) == failed {
			return true
		}
	}
	return false
}

// candidates are the layouts that a queue may have.
func (l layouts) candidates(queue string) []layout.Layout {
	if of, named := l.byQueue[queue]; named {
		return []layout.Layout{of}
	}
	return l.all
}

// recognise finds which of the queues are consumed, and the layout of each: the one whose failed queue is there. A failed queue of its own says
// more of a queue than one that all queues share.
func (l layouts) recognise(queues map[string]bool, there func(queue string) bool) map[string]layout.Layout {
	failed := make(map[string]bool)
	for queue := range queues {
		for _, of := range l.candidates(queue) {
			failed[of.FailedQueue(queue)] = true
		}
	}
	found := make(map[string]layout.Layout)
	for queue := range queues {
		if _, named := l.byQueue[queue]; failed[queue] && !named && !l.hasOwnFailed(queue, there) {
			continue
		}
		for _, of := range l.candidates(queue) {
			if rest := of.FailedQueue(queue); rest == queue || !there(rest) {
				continue
			}
			if found[queue] = of; !isCommon(of, queue) {
				break
			}
		}
	}
	return found
}

// hasOwnFailed reports whether a failed queue is there for this queue alone, as for one that is called mail.failed and is consumed, too.
func (l layouts) hasOwnFailed(queue string, there func(queue string) bool) bool {
	return slices.ContainsFunc(l.candidates(queue), func(of layout.Layout) bool { return !isCommon(of, queue) && there(of.FailedQueue(queue)) })
}

// isCommon reports whether the failed queue of a queue is that of all others, too.
func isCommon(of layout.Layout, queue string) bool {
	return of.FailedQueue(queue) == of.FailedQueue("another queue")
}
