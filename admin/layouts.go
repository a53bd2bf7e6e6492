package admin

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// layoutSet are the layouts of the queues of an Admin.
type layoutSet struct {
	usual   layouts.Layout            // of queues that are not named
	byQueue map[string]layouts.Layout // of those that are
	guessed bool                      // the usual one was not set, and those by queue differ
	all     []layouts.Layout          // each of them once, the usual one first unless it is guessed
}

// layoutsOf reads them from a configuration.
func layoutsOf(config Config) (layoutSet, error) {
	l := layoutSet{byQueue: make(map[string]layouts.Layout)}
	if config.Layout != nil {
		of, err := layoutOf(config.Layout)
		if err != nil {
			return l, fmt.Errorf("admin: Layout: %w", err)
		}
		l.usual, l.all = of, []layouts.Layout{of}
	}
	for _, queue := range slices.Sorted(maps.Keys(config.Layouts)) {
		if config.Layouts[queue] == nil {
			return l, fmt.Errorf("admin: Layouts: queue %q: it is nil; set layout.Native{} for the native layout", queue)
		}
		of, err := layoutOf(config.Layouts[queue])
		if err != nil {
			return l, fmt.Errorf("admin: Layouts: queue %q: %w", queue, err)
		}
		l.byQueue[queue] = of
		l.all = withLayout(l.all, of)
	}
	switch {
	case l.usual != nil:
	case len(l.all) == 1:
		l.usual = l.all[0]
	default:
		l.usual, l.guessed = layouts.Native{}, len(l.all) > 1
	}
	if len(l.all) == 0 {
		l.all = []layouts.Layout{l.usual}
	}
	return l, nil
}

// layoutOf is the implementation of a layout, after its settings are validated.
func layoutOf(settings layout.Layout) (layouts.Layout, error) {
	of, err := layouts.Of(settings)
	if err != nil {
		return nil, err
	}
	return of, of.Validate()
}

// withLayout adds a layout, once. Layouts can have slices and maps, so they cannot be compared with ==.
func withLayout(all []layouts.Layout, of layouts.Layout) []layouts.Layout {
	if slices.ContainsFunc(all, func(other layouts.Layout) bool { return reflect.DeepEqual(of, other) }) {
		return all
	}
	return append(slices.Clip(all), of)
}

// withSubscriptions adds the layouts of the subscriptions in DoctorOptions.
func (l layoutSet) withSubscriptions(subscriptions map[string]DoctorSubscription) (layoutSet, error) {
	l.byQueue = maps.Clone(l.byQueue)
	for _, queue := range slices.Sorted(maps.Keys(subscriptions)) {
		if subscriptions[queue].Layout == nil {
			continue
		}
		of, err := layouts.Of(subscriptions[queue].Layout)
		if err != nil {
			return l, fmt.Errorf("layout of the subscription to queue %q: %w", queue, err)
		}
		l.byQueue[queue] = of
		l.all = withLayout(l.all, of)
	}
	return l, nil
}

// of is the layout of a queue. A queue that all queues of a layout share for failed messages has that layout.
func (l layoutSet) of(queue string) layouts.Layout {
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

// ErrNoLayout: the queues in Config.Layouts have different layouts, so the layout of another queue is not known. Add the queue to Config.Layouts, or
// set Config.Layout.
var ErrNoLayout = errors.New("its layout is not known")

// known is the layout of a queue whose failed queue is used. It must not be guessed: the failed queue of another layout may exist, too.
func (l layoutSet) known(queue string) (layouts.Layout, error) {
	of := l.of(queue)
	if _, named := l.byQueue[queue]; !named && l.guessed && of.FailedQueue(queue) != queue {
		return nil, fmt.Errorf("queue %q: %w", queue, ErrNoLayout)
	}
	return of, nil
}

// mayConsume reports whether a subscription may consume a queue whose failed queue exists. A failed queue that all queues share proves nothing about one
// of them, and subscriptions do not consume rehop's own queues.
func (l layoutSet) mayConsume(queue string) bool {
	if _, named := l.byQueue[queue]; named {
		return true
	}
	return !shared(queue) && !layouts.IsWaitQueue(queue) && !isCommon(l.of(queue), queue)
}

// sharesFailed reports whether another queue has the same failed queue, by its layout.
func (l layoutSet) sharesFailed(queue, failed string) bool {
	for other, of := range l.byQueue {
		if other != queue && of.FailedQueue(other) == failed {
			return true
		}
	}
	return false
}

// failedOfSeveral reports whether a queue is the failed queue of several queues that are named, and returns their layout.
func (l layoutSet) failedOfSeveral(failed string) (of layouts.Layout, ok bool) {
	if _, named := l.byQueue[failed]; named {
		return nil, false
	}
	owners := 0
	for _, queue := range slices.Sorted(maps.Keys(l.byQueue)) {
		if l.byQueue[queue].FailedQueue(queue) == failed {
			of = l.byQueue[queue]
			owners++
		}
	}
	return of, owners > 1
}

// candidates are the layouts that a queue may have.
func (l layoutSet) candidates(queue string) []layouts.Layout {
	if of, named := l.byQueue[queue]; named {
		return []layouts.Layout{of}
	}
	return l.all
}

// recognise finds which of the queues are consumed, and the layout of each: the one whose failed queue exists. A queue's own failed queue counts more
// than one that all queues share.
func (l layoutSet) recognise(queues map[string]bool, there func(queue string) bool) map[string]layouts.Layout {
	failed := make(map[string]bool)
	for queue := range queues {
		for _, of := range l.candidates(queue) {
			failed[of.FailedQueue(queue)] = true
		}
	}
	found := make(map[string]layouts.Layout)
	for queue := range queues {
		if _, named := l.byQueue[queue]; failed[queue] && !named && !l.hasOwnFailed(queue, there) {
			continue
		}
		for _, of := range l.candidates(queue) {
			if name := of.FailedQueue(queue); name == queue || !there(name) {
				continue
			}
			if found[queue] = of; !isCommon(of, queue) {
				break
			}
		}
	}
	return found
}

// hasOwnFailed reports whether a queue has its own failed queue, as a queue with the name mail.failed can have that is consumed, too.
func (l layoutSet) hasOwnFailed(queue string, there func(queue string) bool) bool {
	return slices.ContainsFunc(l.candidates(queue), func(of layouts.Layout) bool { return !isCommon(of, queue) && there(of.FailedQueue(queue)) })
}

// isCommon reports whether all queues of a layout share the failed queue.
func isCommon(of layouts.Layout, queue string) bool {
	return of.FailedQueue(queue) == of.FailedQueue("another queue")
}
