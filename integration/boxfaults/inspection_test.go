package boxfaults

import (
	"fmt"
	"os"
	"strings"
)

// inspection compares the books with the database while work continues, so that the first fault ends a test, close to its cause. The
// audit at the end decides.
type inspection struct {
	scene  *scene
	kinds  string          // which faults it looks for; empty: all
	absent map[string]bool // messages that had no row any more at the last look, and had not arrived
}

// newInspection looks for the kinds of faults that REHOP_FAULTS_UNTIL has: lost, invented, effects-twice, unexplained-copies, or
// several of them.
func newInspection(s *scene) *inspection {
	return &inspection{scene: s, kinds: os.Getenv("REHOP_FAULTS_UNTIL")}
}

func (in *inspection) wants(kind string) bool {
	return in.kinds == "" || strings.Contains(in.kinds, kind)
}

// next returns a description of a fault, or an empty text.
func (in *inspection) next() string {
	in.scene.t.Helper()
	// What was published was in the database before; so this comes first.
	published := in.scene.books.arrived()
	committed, rows := make(map[string]bool), make(map[string]bool)
	in.scene.each("SELECT name, '' FROM business", func(name, _ string) { committed[name] = true })
	// And this comes last: a message that was committed and has no row here was deleted, so it had been published.
	in.scene.each("SELECT message_id, '' FROM rehop_outbox", func(id, _ string) { rows[id] = true })
	if in.wants("invented") {
		for id := range published {
			if !committed[id] {
				return fmt.Sprintf("invented: %s was published and never committed", id)
			}
		}
	}
	if repeated := in.scene.books.sentTwice(); in.wants("unexplained-copies") && len(repeated) > 0 {
		return fmt.Sprintf("unexplained-copies: one relay has sent %s twice", strings.Join(repeated, " "))
	}
	if twice := in.scene.books.twice(); in.wants("effects-twice") && len(twice) > 0 {
		return fmt.Sprintf("effects-twice: the handler has published different messages for %s", strings.Join(twice, " "))
	}
	before := in.absent
	in.absent = make(map[string]bool)
	published = in.scene.books.arrived()
	for id := range committed {
		if rows[id] || published[id] > 0 {
			continue
		}
		if before[id] && in.wants("lost") { // since the last look it had all the time to arrive
			return fmt.Sprintf("lost: %s was committed, and deleted without being published", id)
		}
		in.absent[id] = true
	}
	return ""
}
