package layouts_test

import (
	"strings"
	"testing"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// of is short for tables.
func of(l layout.Layout) layouts.Layout { return layouts.Must(l) }

// embedding is a type of a user that satisfies the interface.
type embedding struct{ layout.Native }

func TestOfKnowsItsOwnLayoutsOnly(t *testing.T) {
	t.Parallel()
	for _, l := range []layout.Layout{layout.Native{Type: layout.Classic}, layout.PubSub{Delay: 1}, layout.DLX{Name: "d"}, layout.Tiers{Name: "t"},
		layout.Sneakers{Retries: 3}, layout.Envelope{Name: "e"}} {
		made, err := layouts.Of(l)
		if err != nil {
			t.Errorf("%T: %v", l, err)
			continue
		}
		if got, want := layouts.Name(made.Settings()), layouts.Name(l); got != want {
			t.Errorf("%T: the settings are those of %s, want %s", l, got, want)
		}
	}
	for name, l := range map[string]layout.Layout{
		"layouts_test.embedding": embedding{}, "*layout.PubSub": &layout.PubSub{}, "struct { layout.DLX }": struct{ layout.DLX }{}, "nil": nil,
	} {
		if made, err := layouts.Of(l); err == nil || made != nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, %v, want an error that names the type", name, made, err)
		}
	}
}
