package consume

import (
	"testing"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/ordering"
)

// A migration removes notes from a held queue, and never a message: each kind must be known as one or the other.
func TestNotesHaveNoContent(t *testing.T) {
	for kind, name := range kinds {
		m := ordering.Message{Kind: ordering.Kind(kind)}
		if got, want := envelope.IsOrderNote(name), !m.Copied(); got != want {
			t.Errorf("%q is a note: got %v, want %v", name, got, want)
		}
	}
}
