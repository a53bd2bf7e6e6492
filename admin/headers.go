package admin

import (
	"maps"

	"github.com/rehop/rehop/internal/letters"
)

// replayedHeaders are the headers of a message for its replay: without those in drop, where a * at the end of a name matches any rest, and without what
// other libraries count failures by.
func replayedHeaders(headers map[string]any, drop []string) map[string]any {
	kept := maps.Clone(headers)
	for _, pattern := range drop {
		maps.DeleteFunc(kept, func(name string, _ any) bool { return keyMatches(pattern, name) })
	}
	return letters.Reset(kept)
}
