package admin

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

func TestRecogniseLayouts(t *testing.T) {
	l, err := layoutsOf(Config{Layouts: map[string]layout.Layout{
		"mail": layout.Native{}, "shop@user": layout.PubSub{}, "letters": layout.DLX{}, "odd.failed": layout.DLX{}, "absent": layout.Native{},
	}})
	if err != nil {
		t.Fatal(err)
	}
	there := []string{"mail", "mail.failed", "shop@user", "shop@user@failed", "letters", "dlq", "odd", "odd.failed", "post", "post.failed", "shop@order", "shop@order@failed", "stray", "absent"}
	returns := make(map[string]bool) // the native layout leads messages to failed queues, too
	for _, queue := range there {
		if queue != "dlq" {
			returns[queue] = true
		}
	}
	got := l.recognise(returns, func(queue string) bool { return slices.Contains(there, queue) })
	want := map[string]layout.Layout{
		"mail": layout.Native{}, "shop@user": layout.PubSub{}, "letters": layout.DLX{},
		"odd.failed": layout.DLX{},                             // named, although it could be the failed queue of another
		"odd":        layout.Native{}, "post": layout.Native{}, // its own failed queue counts more than the common one
		"shop@order": layout.PubSub{},
		"stray":      layout.DLX{}, // nothing but the common failed queue is there for it
	}
	if !reflect.DeepEqual(settingsOf(got), want) {
		t.Errorf("got %v, want %v", got, want)
	}
	consumed := l.recognise(map[string]bool{"post": true, "post.failed": true}, func(queue string) bool {
		return slices.Contains([]string{"post", "post.failed", "post.failed.failed"}, queue)
	})
	if want := map[string]layout.Layout{"post": layout.Native{}, "post.failed": layout.Native{}}; !reflect.DeepEqual(settingsOf(consumed), want) {
		t.Errorf("a consumed queue that is called like a failed one: got %v, want %v", consumed, want)
	}
	for queue, want := range map[string]bool{"mail": true, "letters": true, "post": true, layouts.UnroutedQueue: false, layouts.OrphansQueue: false, layouts.StepQueue(time.Minute): false} {
		if got := l.mayConsume(queue); got != want {
			t.Errorf("queue %q may be consumed: got %v, want %v", queue, got, want)
		}
	}
	only, err := layoutsOf(Config{Layout: layout.DLX{}})
	if err != nil || only.mayConsume("stray") {
		t.Errorf("a queue of which only the failed queue of all is there: got that it may be consumed, and %v", err)
	}
	if of := l.of("dlq"); !reflect.DeepEqual(of.Settings(), layout.DLX{}) {
		t.Errorf("the failed queue that all share: got %v, want that of its layout", of)
	}
}

func settingsOf(made map[string]layouts.Layout) map[string]layout.Layout {
	all := make(map[string]layout.Layout)
	for queue, of := range made {
		all[queue] = of.Settings()
	}
	return all
}

func TestLayoutsOfConfig(t *testing.T) {
	mixed := map[string]layout.Layout{"a": layout.Native{}, "b": layout.PubSub{}}
	for name, c := range map[string]struct {
		config Config
		usual  layout.Layout
		sure   bool // the layout of a queue that is not named
	}{
		"nothing":    {Config{}, layout.Native{}, true},
		"one":        {Config{Layout: layout.DLX{}}, layout.DLX{}, true},
		"all alike":  {Config{Layouts: map[string]layout.Layout{"a": layout.PubSub{}, "b": layout.PubSub{}}}, layout.PubSub{}, true},
		"mixed":      {Config{Layouts: mixed}, layout.Native{}, false},
		"mixed, set": {Config{Layout: layout.DLX{}, Layouts: mixed}, layout.DLX{}, true},
	} {
		l, err := layoutsOf(c.config)
		if err != nil || !reflect.DeepEqual(l.of("other").Settings(), c.usual) {
			t.Errorf("%s: got %v and %v, want %v", name, l.of("other"), err, c.usual)
		}
		if _, err := l.known("other"); errors.Is(err, ErrNoLayout) == c.sure {
			t.Errorf("%s: got %v, want that the layout is known: %t", name, err, c.sure)
		}
		for _, queue := range slices.Sorted(maps.Keys(c.config.Layouts)) {
			if of, err := l.known(queue); err != nil || !reflect.DeepEqual(of.Settings(), c.config.Layouts[queue]) {
				t.Errorf("%s: queue %s: got %v and %v, want %v", name, queue, of, err, c.config.Layouts[queue])
			}
		}
	}
	for _, bad := range []layout.Layout{nil, layout.PubSub{Delay: -time.Second}} {
		if _, err := layoutsOf(Config{Layouts: map[string]layout.Layout{"q": bad}}); err == nil {
			t.Errorf("%v: got no error", bad)
		}
	}
}
