package amqp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rehop/rehop/internal/wire"
)

// release is a release of RabbitMQ, such as 4.3.
type release struct{ major, minor int }

// The releases that changed what a client can see. A part of a section holds for all, or names those for which it does.
var (
	release313 = release{3, 13} // by its release notes and source: the suite has not run on it
	release40  = release{4, 0}
	release43  = release{4, 3}
)

// releaseOf reads the first two numbers of a version, such as 4.3.6.
func releaseOf(version string) (r release, err error) {
	if _, err := fmt.Sscanf(version, "%d.%d", &r.major, &r.minor); err != nil {
		return r, fmt.Errorf("the version %q is none of RabbitMQ's: %w", version, err)
	}
	return r, nil
}

func (r release) String() string { return fmt.Sprintf("%d.%d", r.major, r.minor) }

func (r release) less(other release) bool {
	return r.major < other.major || r.major == other.major && r.minor < other.minor
}

// releases are those from one on and before another. A zero release is no bound.
type releases struct{ since, before release }

// since are a release and the later ones.
func since(r release) releases { return releases{since: r} }

// before are the releases before one.
func before(r release) releases { return releases{before: r} }

// include reports whether a release is one of them.
func (s releases) include(r release) bool {
	return !r.less(s.since) && (s.before == release{} || r.less(s.before))
}

func (s releases) String() string {
	var bounds []string
	if (s.since != release{}) {
		bounds = append(bounds, "since "+s.since.String())
	}
	if (s.before != release{}) {
		bounds = append(bounds, "before "+s.before.String())
	}
	return strings.Join(bounds, " and ")
}

// Since reports whether the broker is, or follows, this release or a later one.
func (b *Bench) Since(r release) bool {
	b.t.Helper()
	have, err := releaseOf(b.Target.Version())
	b.Must(err)
	return !have.less(r)
}

// either is what holds from a release on, or else what held before.
func either[T any](b *Bench, r release, since, before T) T {
	b.t.Helper()
	if b.Since(r) {
		return since
	}
	return before
}

// denied is the text of a refusal for lack of a permission. Before 4.0 it does not name the missing one.
func denied(b *Bench, right, resource, user string) string {
	b.t.Helper()
	access := either(b, release40, right+" access", "access")
	return "ACCESS_REFUSED - " + access + " to " + resource + " in vhost '{vhost}' refused for user '" + user + "'"
}

// transientRefused is the beginning of the text by which 4.3 refuses a queue that is neither durable nor exclusive.
const transientRefused = "INTERNAL_ERROR - Feature `transient_nonexcl_queues` is deprecated.\n…"

// delivered is how headers that were published arrive: from 4.0 on in the order of their names, of several with one name the first,
// and with every integer of 64 bits as a signed one.
func delivered(b *Bench, published wire.Table) wire.Table {
	b.t.Helper()
	if !b.Since(release40) {
		return published
	}
	var kept wire.Table
	for _, f := range published {
		if n, ok := f.Value.(uint64); ok {
			f.Value = int64(n)
		}
		if _, twice := kept.Get(f.Key); !twice {
			kept = append(kept, f)
		}
	}
	slices.SortFunc(kept, func(x, y wire.Field) int { return strings.Compare(x.Key, y.Key) })
	return kept
}
