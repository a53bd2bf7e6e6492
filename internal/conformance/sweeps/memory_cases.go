package sweeps

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/layout"
)

func memoryCases() []Case {
	return []Case{
		{"memory/ExportOfLargeBodies", exportOfLargeBodies}, {"memory/ReplayOfLargeBodies", replayOfLargeBodies},
		{"memory/LargeBodiesOfLimitNotKnown", largeBodiesOfLimitNotKnown},
	}
}

// There are small messages, and behind them more large ones than fit into memory together: almost four times of what is read ahead.
const smallOnes, largeOnes = 400, 60

func (b *Bench) fillLarge() {
	b.t.Helper()
	body := bytes.Repeat([]byte("x"), b.room()/16)
	b.fill(failed, smallOnes+largeOnes, func(i int, p *amqp091.Publishing) {
		if i >= smallOnes {
			p.Body = body
		}
	})
}

// exportOfLargeBodies: all are exported once, in their order, although the large ones may come before there is room for them.
// TestOrderOfWhatFindsNoRoom makes sure that they do.
func exportOfLargeBodies(b *Bench) {
	b.declare(failed, failedArgs(layout.Quorum))
	b.fillLarge()
	out := &beginnings{most: 40}
	_, err := b.admin(b.managed, b.narrow).Export(b.context(), queue, out, admin.Filter{})
	b.must(err)
	var got []string
	for _, line := range out.lines {
		id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"id":"`), `"`)
		got = append(got, id)
	}
	b.wantIDs("export", got, smallOnes+largeOnes, nil)
	b.wantDepth(failed, smallOnes+largeOnes)
}

// replayOfLargeBodies: each that is wanted is replayed once, in its order, and the others stay in theirs.
func replayOfLargeBodies(b *Bench) {
	b.declare(failed, failedArgs(layout.Quorum), queue)
	b.fillLarge()
	p, err := b.admin(b.managed, b.narrow).Replay(b.context(), queue, admin.Options{Filter: admin.Filter{Header: map[string]string{"third": "1"}}})
	b.must(err)
	if p.Seen != smallOnes+largeOnes || p.Kept+p.Done != p.Seen {
		b.t.Errorf("progress: got %+v, want all %d seen", p, smallOnes+largeOnes)
	}
	b.wantIDs("replayed", b.takeAll(queue), smallOnes+largeOnes, func(i int) bool { return i%3 == 1 })
	b.wantIDs("kept", b.takeAll(failed), smallOnes+largeOnes, func(i int) bool { return i%3 != 1 })
}

// largeBodiesOfLimitNotKnown: where the delivery limit is not known, messages for which there is no room may be published anew. They are then at the
// end of the queue, behind messages that came later. Each is exported once, or replayed, and the others stay.
func largeBodiesOfLimitNotKnown(b *Bench) {
	b.declare(failed, failedArgs(layout.Quorum), queue)
	b.fillLarge()
	a := b.admin(b.narrow)
	for range 2 {
		if count, err := a.Export(b.context(), queue, io.Discard, admin.Filter{}); err != nil || count != smallOnes+largeOnes {
			b.t.Fatalf("export: got %d messages and %v, want %d", count, err, smallOnes+largeOnes)
		}
		b.wantDepth(failed, smallOnes+largeOnes)
	}
	_, err := a.Replay(b.context(), queue, admin.Options{Filter: admin.Filter{Header: map[string]string{"third": "1"}}})
	b.must(err)
	all := append(b.takeAll(queue), b.takeAll(failed)...)
	slices.SortFunc(all, byNumber)
	b.wantIDs("in both queues", all, smallOnes+largeOnes, nil)
}

// beginnings keeps the beginnings of lines.
type beginnings struct {
	most  int
	lines []string
	line  []byte
}

func (w *beginnings) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		w.line = append(w.line, line[:min(len(line), w.most)]...)
		if bytes.HasSuffix(line, []byte("\n")) {
			w.lines, w.line = append(w.lines, string(w.line[:min(len(w.line), w.most)])), nil
		}
	}
	return len(p), nil
}
