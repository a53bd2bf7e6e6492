package typo_test

import (
	"testing"

	"github.com/rehop/rehop/cmd/rehop/internal/typo"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	words := []string{"queue", "queue-type", "exchange", "keys"}
	for word, want := range map[string]string{
		"quue": "queue", "QUEUE": "queue", "queuetype": "queue-type", "exchagne": "exchange", "key": "keys", "": "", "ke": "", "zzzz": "", "timeout": "",
	} {
		if got := typo.Nearest(word, words); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
