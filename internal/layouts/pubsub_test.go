package layouts_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

func TestPubSubCountsWhatOthersHaveFailed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 250)
	for what, c := range map[string]struct {
		queue   string
		headers map[string]any
		want    int
	}{
		"never failed":                    {"a", nil, 0},
		"failed twice":                    {"a", deaths(died("a@retry", "expired", "master.retry", "k", 2)), 2},
		"failed by another subscription":  {"a", deaths(died("b@retry", "expired", "master.retry", "k", 2)), 0},
		"failed by both":                  {"a", deaths(died("b@retry", "expired", "master.retry", "k", 5), died("a@retry", "expired", "master.retry", "k", 1)), 1},
		"waited with rehop since":         {"a", deaths(died("rehop.step.30s", "expired", "rehop.step", "k", 2), died("a@retry", "expired", "master.retry", "k", 2)), 2},
		"an old broker, an entry each":    {"a", deaths(map[string]any{"queue": "a@retry", "reason": "expired"}, map[string]any{"queue": "a@retry", "reason": "expired"}), 2},
		"rejected out of the retry queue": {"a", deaths(died("a@retry", "rejected", "master.retry", "k", 2)), 0},
		"a name too long for its suffix":  {long, of(layout.PubSub{}).Record(layouts.Message{Queue: long}, 3), 3},
	} {
		if got := of(layout.PubSub{}).Failures(layouts.Message{Queue: c.queue, Headers: c.headers}); got != c.want {
			t.Errorf("%s: got %d, want %d", what, got, c.want)
		}
	}
}

// A stray is dropped, so it must be one without doubt.
func TestPubSubStrays(t *testing.T) {
	t.Parallel()
	letter := func(queue, exchange, key string, headers map[string]any) layouts.Message {
		return layouts.Message{Queue: queue, Exchange: exchange, Key: key, Headers: headers}
	}
	other, own := died("b@retry", "expired", "master.retry", "k", 1), died("a@retry", "expired", "master.retry", "k", 1)
	long := strings.Repeat("n", 250)
	for what, c := range map[string]struct {
		layouts.Message
		want bool
	}{
		"fresh":                                    {letter("a", "master", "k", nil), false},
		"from its own retry queue":                 {letter("a", "master", "k", deaths(own)), false},
		"from another's retry queue":               {letter("a", "master", "k", deaths(other)), true},
		"from its own, after another's":            {letter("a", "master", "k", deaths(own, other)), false},
		"from another's, after its own":            {letter("a", "master", "k", deaths(other, own)), true},
		"from rehop's queue, after another's":      {letter("a", "master", "k", deaths(died("rehop.step.30s", "expired", "rehop.step", "k", 1), other)), false},
		"handed on with another key":               {letter("a", "master", "k2", deaths(other)), false},
		"handed on to another exchange":            {letter("a", "events", "k", deaths(other)), false},
		"handed on by the default exchange":        {letter("a", "", "a", deaths(other)), false},
		"another's, that was rejected":             {letter("a", "master", "k", deaths(died("b@retry", "rejected", "master.retry", "k", 1))), false},
		"from a queue that is no retry queue":      {letter("a", "master", "k", deaths(died("b", "expired", "master.retry", "k", 1))), false},
		"from its own, with a name that is long":   {letter(long, "master", "k", of(layout.PubSub{}).Record(letter(long, "master", "k", nil), 1)), false},
		"from the retry queue of a retry queue":    {letter("a@retry", "master", "k", deaths(own)), true},
		"from another's by Java":                   {letter("a", "master", "k", deaths(died("b@retry", "expired", "master@retry", "k", 1))), true},
		"from another's, by the other's name":      {letter("a", "master", "b", deaths(died("b@retry", "expired", "master.retry", "b", 1))), true},
		"from its own, by its own name":            {letter("a", "master", "a", deaths(died("a@retry", "expired", "master@retry", "a", 1))), false},
		"from another's, on an exchange of theirs": {letter("a", "events", "k", deaths(died("b@retry", "expired", "events.retry", "k", 1))), true},
	} {
		if got := of(layout.PubSub{}).Stray(c.Message); got != c.want {
			t.Errorf("%s: got stray %t, want %t", what, got, c.want)
		}
	}
}

// Others read the count of the newest entry of x-death, whichever queue it is of.
func TestPubSubRetryCarriesTheCount(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	f := layouts.Failure{Message: layouts.Message{Queue: "a", Exchange: "master", Key: "k"}, Attempt: 3, Delay: 30 * time.Second, At: at}
	own := map[string]any{"queue": "a@retry", "reason": "expired", "exchange": "master.retry", "routing-keys": []any{"k"}, "count": int64(3), "time": at, "rehop": true}
	verdict := of(layout.PubSub{}).Retry(f)
	if want := (layouts.Verdict{Do: layouts.Wait, Headers: deaths(own)}); !reflect.DeepEqual(verdict, want) {
		t.Errorf("by the cascade: got %v, want %v", verdict, want)
	}
	f.Via = "rehop.step.30s"
	via := map[string]any{"queue": "rehop.step.30s", "reason": "expired", "exchange": "", "routing-keys": []any{"k"}, "count": int64(2), "time": at, "rehop": true}
	if got, want := of(layout.PubSub{}).Retry(f).Headers, deaths(via, own); !reflect.DeepEqual(got, want) {
		t.Errorf("by a step: got %v, want %v: the step adds one", got, want)
	}
	f.Attempt = 1
	if got := of(layout.PubSub{}).Retry(f).Headers["x-death"].([]any); len(got) != 1 {
		t.Errorf("the first failure: got %v, want the entry of the retry queue alone", got)
	}
}

func TestPubSubOpens(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		letter layouts.Message
		want   envelope.Failure
	}{
		"published without headers": {layouts.Message{Queue: "a", Exchange: "master.failed", Key: "k"},
			envelope.Failure{Queue: "a", Exchange: "master", Key: "k", Attempt: 1, Kind: "error"}},
		"published with its headers": {layouts.Message{Queue: "a", Exchange: "master.failed", Key: "k", Headers: deaths(died("a@retry", "expired", "master.retry", "k", 4))},
			envelope.Failure{Queue: "a", Exchange: "master", Key: "k", Attempt: 5, Kind: "error"}},
		"a copy of what another has failed": {layouts.Message{Queue: "a", Exchange: "master.failed", Key: "k", Headers: deaths(died("b@retry", "expired", "master.retry", "k", 4))},
			envelope.Failure{Queue: "b", Exchange: "master", Key: "k", Attempt: 5, Kind: "error"}},
		"put there by hand": {layouts.Message{Queue: "a", Exchange: "", Key: "a@failed"},
			envelope.Failure{Queue: "a", Key: "a@failed", Attempt: 1, Kind: "error"}},
		"failed by rehop after others": {layouts.Message{Queue: "a", Exchange: "rehop.rest", Key: "k",
			Headers: map[string]any{envelope.Queue: "a", envelope.Exchange: "master", envelope.Key: "k", envelope.Attempt: int32(4), envelope.Error: "e", envelope.Kind: "error", envelope.InFailedQueue: true}},
			envelope.Failure{Queue: "a", Exchange: "master", Key: "k", Attempt: 4, Kind: "error", Error: "e", InFailedQueue: true}},
		"published with the queue's name": {layouts.Message{Queue: "a", Exchange: "master.failed", Key: "a", Headers: map[string]any{
			"x-orig-routing-key": "k", "x-death": []any{died("a@retry", "expired", "master.retry", "a", 4)}}},
			envelope.Failure{Queue: "a", Exchange: "master", Key: "k", Attempt: 5, Kind: "error"}},
		"published by Java": {layouts.Message{Queue: "a", Exchange: "master@failed", Key: "a", Headers: map[string]any{"x-orig-routing-key": "k"}},
			envelope.Failure{Queue: "a", Exchange: "master", Key: "k", Attempt: 1, Kind: "error"}},
		"replayed by rehop, and failed by others": {layouts.Message{Queue: "a", Exchange: "master.failed", Key: "a", Headers: map[string]any{
			envelope.Queue: "a", envelope.Exchange: "master", envelope.Key: "k", envelope.Attempt: int32(0), envelope.Replays: int32(1),
			"x-death": []any{died("a@retry", "expired", "master.retry", "a", 4)}}},
			envelope.Failure{Queue: "a", Exchange: "master", Key: "k", Attempt: 5, Replays: 1, Kind: "error"}},
		"failed twice by rehop, and then by others": {layouts.Message{Queue: "a", Exchange: "master.failed", Key: "a", Headers: map[string]any{
			envelope.Queue: "a", envelope.Exchange: "master", envelope.Key: "k", envelope.Attempt: int32(2), envelope.Error: "old", envelope.Kind: "timeout",
			envelope.FailedAt: int64(1_600_000_000_000), envelope.Host: "h", envelope.Stack: "s",
			"x-death": []any{died("a@retry", "expired", "master.retry", "a", 4)}}},
			envelope.Failure{Queue: "a", Exchange: "master", Key: "k", Attempt: 5, Kind: "error"}},
		"given up by rehop, put back, and failed by others": {layouts.Message{Queue: "a", Exchange: "master.failed", Key: "a", Headers: map[string]any{
			envelope.Queue: "a", envelope.Exchange: "master", envelope.Key: "k", envelope.Attempt: int32(4), envelope.Error: "old", envelope.Kind: "timeout", envelope.InFailedQueue: true,
			"x-death": []any{died("a@retry", "expired", "master.retry", "a", 4)}}},
			envelope.Failure{Queue: "a", Exchange: "master", Key: "k", Attempt: 5, Kind: "error", InFailedQueue: true}},
	} {
		if _, got := of(layout.PubSub{}).Open(c.letter); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", what, got, c.want)
		}
	}
}

// A fleet that leads messages by the name of their queue keeps their key in a header.
func TestPubSubOrigin(t *testing.T) {
	t.Parallel()
	kept := map[string]any{"x-orig-routing-key": "user.created"}
	for what, c := range map[string]struct {
		layouts.Message
		want string
	}{
		"fresh":                     {layouts.Message{Queue: "a", Exchange: "master", Key: "user.created"}, "user.created"},
		"back from its retry queue": {layouts.Message{Queue: "a", Exchange: "master", Key: "a", Headers: kept}, "user.created"},
		"published by that name":    {layouts.Message{Queue: "a", Exchange: "master", Key: "a"}, "a"},
		"published with a header":   {layouts.Message{Queue: "a", Exchange: "master", Key: "other", Headers: kept}, "other"},
		"with a key that is none":   {layouts.Message{Queue: "a", Exchange: "master", Key: "a", Headers: map[string]any{"x-orig-routing-key": strings.Repeat("k", 256)}}, "a"},
	} {
		if exchange, key := of(layout.PubSub{}).Origin(c.Message); exchange != "master" || key != c.want {
			t.Errorf("%s: got %q with key %q, want master with key %q", what, exchange, key, c.want)
		}
	}
}

// What a broker has decides between the forms; settings can choose one.
func TestForms(t *testing.T) {
	t.Parallel()
	spec := layouts.QueueSpec{Name: "q"}
	for what, c := range map[string]struct {
		layouts.Layout
		want []layout.Layout
	}{
		"pubsub":                {of(layout.PubSub{}), []layout.Layout{layout.PubSub{Form: layout.PubSubByQueue}, layout.PubSub{Form: layout.PubSubByKey}}},
		"pubsub, by key":        {of(layout.PubSub{Form: layout.PubSubByKey}), []layout.Layout{layout.PubSub{Form: layout.PubSubByKey}}},
		"sneakers":              {of(layout.Sneakers{}), []layout.Layout{layout.Sneakers{RetryArgs: map[string]any{}}}},
		"sneakers of one's own": {of(layout.Sneakers{RetryArgs: map[string]any{"x-queue-type": "quorum"}}), []layout.Layout{layout.Sneakers{RetryArgs: map[string]any{"x-queue-type": "quorum"}}}},
		"one form":              {of(layout.DLX{}), []layout.Layout{layout.DLX{}}},
	} {
		if got := layouts.Forms(c.Layout, spec); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", what, got, c.want)
		}
	}
	none, quorum, classic := map[string]any{}, map[string]any{"x-queue-type": "quorum"}, map[string]any{"x-queue-type": "classic"}
	for what, c := range map[string]struct {
		layouts.QueueSpec
		want []map[string]any
	}{
		"a quorum queue":             {layouts.QueueSpec{Name: "q", Type: layout.Quorum}, []map[string]any{quorum, none}},
		"a quorum queue by argument": {layouts.QueueSpec{Name: "q", Args: quorum}, []map[string]any{quorum, none}},
		"a queue of somebody else's": {layouts.QueueSpec{Name: "q", Passive: true}, []map[string]any{none, quorum, classic}},
	} {
		var got []map[string]any
		for _, l := range layouts.Forms(of(layout.Sneakers{}), c.QueueSpec) {
			got = append(got, l.(layout.Sneakers).RetryArgs)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("sneakers, %s: got %v, want %v", what, got, c.want)
		}
	}
	if err := of(layout.PubSub{Form: "by hand"}).Validate(); err == nil {
		t.Error("a form that does not exist: got no error, want one")
	}
}
