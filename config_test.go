package rehop

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

func TestZeroConfigIsValid(t *testing.T) {
	t.Parallel()
	c := Config{}.withDefaults()
	if err := c.validate(); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if c.URL != "amqp://guest:guest@localhost:5672/" || len(c.URLs) != 1 || c.URLs[0] != "amqp://guest:guest@localhost:5672/" || c.Heartbeat != 10*time.Second || c.DialTimeout != 10*time.Second ||
		c.ReconnectMin != 100*time.Millisecond || c.ReconnectMax != time.Second || c.QueueType != layout.Quorum || c.MaxUnconfirmed != 1024 ||
		c.MaxUnconfirmedBytes != 64<<20 || c.MaxWaiting != 1024 || c.MaxWaitingBytes != 64<<20 || c.MaxBody != 16<<20 || c.Name == "" || c.Dial == nil || c.Logger == nil {
		t.Errorf("got %+v, want the defaults that the comments name", c)
	}
	for name, c := range map[string]Config{
		"one of several":    {URLs: []string{"amqp://a", "amqps://b:1/v"}},
		"long first pause":  {ReconnectMin: time.Minute},
		"exchange":          {Exchanges: []Exchange{{Name: "order"}, {Name: "x", Type: "fanout"}}},
		"classic":           {QueueType: layout.Classic},
		"largest heartbeat": {Heartbeat: 65535 * time.Second},
	} {
		if err := c.withDefaults().validate(); err != nil {
			t.Errorf("%s: got %v, want nil", name, err)
		}
	}
}

// wantFaults checks that an error names every fault.
func wantFaults(t *testing.T, what string, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: got no error, want one with %q", what, want)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: got %q, want it to say %q", what, err, w)
		}
	}
}

func TestConfigReportsAllFaults(t *testing.T) {
	t.Parallel()
	c := Config{
		URL: "amqp://x", URLs: []string{"http://user:secret@host", "amqp://y"}, Heartbeat: time.Millisecond, DialTimeout: -1, ReconnectMin: -1, ReconnectMax: -2,
		MaxUnconfirmed: -1, MaxUnconfirmedBytes: -1, MaxWaiting: -1, MaxWaitingBytes: -1, MaxBody: -1, QueueType: "stream",
		Exchanges: []Exchange{{}, {Name: "amq.x"}, {Name: "rehop.x"}, {Name: strings.Repeat("x", 256)}, {Name: "x", Type: "round"}},
	}
	err := c.withDefaults().validate()
	wantFaults(t, "all at once", err, "URL and URLs are both set", "URL 1", "Heartbeat", "DialTimeout", "ReconnectMin", "ReconnectMax", "is longer than ReconnectMax",
		"MaxUnconfirmed -1", "MaxUnconfirmedBytes", "MaxWaiting -1", "MaxWaitingBytes", "MaxBody", "QueueType", "needs a name",
		"belong to the broker", "belong to rehop", "256 bytes", `"round"`)
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("got %q, want no password in it", err)
	}
	_, err = Open(context.Background(), Config{MaxBody: -1, Heartbeat: 1})
	wantFaults(t, "Open", err, "rehop: config", "MaxBody", "Heartbeat")
}

func TestSubscriptionDefaults(t *testing.T) {
	t.Parallel()
	s := Subscriber{Queue: "q", Handler: Event[int]{}.Handler(func(context.Context, int) error { return nil })}.withDefaults(layouts.Native{})
	if err := s.validate(); err != nil {
		t.Errorf("got %v, want nil", err)
	}
	if s.Concurrency != 1 || s.Prefetch != 4 || s.Timeout != 5*time.Minute || s.StuckAfter != 30*time.Second || s.CrashLimit != 10 ||
		s.ProbeMin != time.Second || s.ProbeMax != 30*time.Second || s.Retry.MaxAttempts() != 6 {
		t.Errorf("got %+v, want the defaults that the comments name", s)
	}
	for concurrency, want := range map[int]int{1: 4, 2: 4, 3: 6, 16: 32} {
		if got := (Subscriber{Concurrency: concurrency}).withDefaults(layouts.Native{}).Prefetch; got != want {
			t.Errorf("prefetch for concurrency %d: got %d, want %d", concurrency, got, want)
		}
	}
	for _, c := range []struct {
		rate                  float64
		concurrency, prefetch int
	}{{100, 1, 4}, {100, 16, 32}, {4, 1, 4}, {3.5, 1, 3}, {0.01, 1, 1}, {3, 2, 3}, {1, 2, 2}} {
		s := Subscriber{Rate: c.rate, Concurrency: c.concurrency}.withDefaults(layouts.Native{})
		if s.Prefetch != c.prefetch || s.Burst != 1 {
			t.Errorf("rate %v and concurrency %d: got a prefetch of %d and a burst of %d, want %d and 1", c.rate, c.concurrency, s.Prefetch, s.Burst, c.prefetch)
		}
	}
	if got := (Subscriber{ProbeMin: time.Hour}).withDefaults(layouts.Native{}).ProbeMax; got != time.Hour {
		t.Errorf("longest pause for a shortest of an hour: got %v, want an hour", got)
	}
}

func TestSubscriptionReportsAllFaults(t *testing.T) {
	t.Parallel()
	s := Subscriber{
		Exchange: "rehop.x", Keys: []string{strings.Repeat("k", 256)}, Concurrency: -1, Prefetch: -5, Timeout: -1, StuckAfter: -1, CrashLimit: -1,
		ProbeMin: -1, ProbeMax: -2, QueueType: "stream", Overflow: "explode", MessageTTL: -1, MaxPriority: 300, Retry: Steps(0),
	}
	wantFaults(t, "all at once", s.withDefaults(layouts.Native{}).validate(), "Queue is empty", "Handler is nil", "belong to rehop", "256 bytes", "Concurrency -1", "Prefetch", "Timeout",
		"CrashLimit", "ProbeMin", "QueueType", "Overflow", "MaxPriority", "step 1")

	handler := HandlerFunc(func(context.Context, *Delivery) error { return nil })
	for name, test := range map[string]struct {
		s    Subscriber
		want string
	}{
		"long name":            {Subscriber{Queue: strings.Repeat("q", 256)}, "256 bytes"},
		"the broker's name":    {Subscriber{Queue: "amq.gen-1"}, "belong to the broker"},
		"keys, no exchange":    {Subscriber{Queue: "q", Keys: []string{"k"}}, "Exchange is not"},
		"prefetch too small":   {Subscriber{Queue: "q", Concurrency: 10, Prefetch: 9}, "Prefetch 9"},
		"prefetch too large":   {Subscriber{Queue: "q", Prefetch: math.MaxUint16 + 1}, "Prefetch 65536"},
		"exclusive quorum":     {Subscriber{Queue: "q", QueueType: layout.Quorum, Exclusive: true}, "quorum queue cannot"},
		"priorities in quorum": {Subscriber{Queue: "q", QueueType: layout.Quorum, MaxPriority: 32}, "31"},
		"passive with TTL":     {Subscriber{Queue: "q", ExistingQueue: true, MessageTTL: time.Second}, "ExistingQueue"},
		"TTL too long":         {Subscriber{Queue: "q", MessageTTL: maxTTL + time.Hour}, "MessageTTL"},
		"expires too late":     {Subscriber{Queue: "q", Expires: maxTTL + time.Hour}, "Expires"},
		"passive with args":    {Subscriber{Queue: "q", ExistingQueue: true, QueueArgs: map[string]any{"x": 1}}, "ExistingQueue"},
		"existing exclusive":   {Subscriber{Queue: "q", ExistingQueue: true, Exclusive: true}, "ExistingQueue"},
		"exclusive consumer":   {Subscriber{Queue: "q", ExclusiveConsumer: true}, "SingleActiveConsumer"},
		"kind of exchange":     {Subscriber{Queue: "q", Exchange: "x", ExchangeType: "round"}, `"round"`},
		"negative rate":        {Subscriber{Queue: "q", Rate: -1}, "Rate -1"},
		"no number as a rate":  {Subscriber{Queue: "q", Rate: math.NaN()}, "Rate NaN"},
		"rate too high":        {Subscriber{Queue: "q", Rate: math.Inf(1)}, "Rate +Inf"},
		"rate too low":         {Subscriber{Queue: "q", Rate: 0.001}, "16m40s"},
		"rate near zero":       {Subscriber{Queue: "q", Rate: 1e-300}, "raise Rate"},
		"rate and prefetch":    {Subscriber{Queue: "q", Rate: 0.1, Prefetch: 61}, "Prefetch of 61"},
		"rate and immediate":   {Subscriber{Queue: "q", Rate: 0.1, Prefetch: 10, Retry: NoRetry().WithImmediate(6)}, "6 immediate retries"},
		"burst without rate":   {Subscriber{Queue: "q", Burst: 2}, "Rate is not"},
		"negative burst":       {Subscriber{Queue: "q", Rate: 1, Burst: -1}, "Burst -1"},
		"the broker's args":    {Subscriber{Queue: "q", Exchange: "", ExchangeType: "", Overflow: "drop"}, "Overflow"},
	} {
		test.s.Handler = handler
		wantFaults(t, name, test.s.withDefaults(layouts.Native{}).validate(), test.want)
	}
	for name, s := range map[string]Subscriber{
		"foreign exchange":   {Queue: "q", Exchange: "amq.topic", Keys: []string{"#"}},
		"odd foreign name":   {Queue: "q", Exchange: "rehop.theirs", ExistingExchange: true},
		"255 bytes":          {Queue: strings.Repeat("q", 255)},
		"passive":            {Queue: "q", ExistingQueue: true, QueueType: layout.Classic},
		"exclusive":          {Queue: "q", Exclusive: true},
		"exclusive consumer": {Queue: "q", QueueType: layout.Classic, ExclusiveConsumer: true},
		"slow":               {Queue: "q", Rate: 0.1, Prefetch: 60},
		"no retry":           {Queue: "q", Retry: NoRetry()},
	} {
		s.Handler = handler
		if err := s.withDefaults(layouts.Native{}).validate(); err != nil {
			t.Errorf("%s: got %v, want nil", name, err)
		}
	}
}

// A key shorter than what the message quotes must not make validation itself panic.
func TestValidationSurvivesOddNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 200)
	s := Subscriber{Queue: long, Exchange: long, Keys: []string{long, ""}, ConsumerTag: long, Handler: HandlerFunc(nil)}
	wantFaults(t, "long names", s.withDefaults(layouts.Native{}).validate(), "400 bytes")
	c := Config{Exchanges: []Exchange{{Name: long}}}
	wantFaults(t, "long exchange", c.withDefaults().validate(), "400 bytes")
	// AMQP carries the tag in a short string, too; the broker would end the connection.
	s = Subscriber{Queue: "q", ConsumerTag: strings.Repeat("t", 256), Handler: HandlerFunc(func(context.Context, *Delivery) error { return nil })}
	wantFaults(t, "long consumer tag", s.withDefaults(layouts.Native{}).validate(), "256 bytes")
}
