package archtest

import (
	"regexp"
	"testing"
)

// closing is a deferred Close. With the context of the program, which has usually ended by then, it would drain nothing.
var closing = regexp.MustCompile(`defer \w+\.Close\((\w+)`)

// Whoever copies a snippet drains its subscriptions at the end.
func TestSnippetsDrain(t *testing.T) {
	found := 0
	for _, p := range pages(t) {
		for i, line := range p.lines {
			if !p.code[i] {
				continue
			}
			m := closing.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			if found++; m[1] == "ctx" {
				t.Errorf("%s:%d has %s; use a context that has not ended, such as context.Background()", p.name, i+1, m[0])
			}
		}
	}
	if found == 0 {
		t.Error("no snippet closes a client")
	}
}
