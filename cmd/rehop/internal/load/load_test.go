package load

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/brokertest"
)

// serve starts a broker and returns its URL.
func serve(t *testing.T, server *broker.Server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server.Logger = slog.New(slog.DiscardHandler)
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), listener) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("close the broker: %v", err)
		}
		<-served
	})
	return "amqp://guest:guest@" + listener.Addr().String() + "/"
}

// timeout is for how long nothing must happen for a run to end.
const timeout = 2 * time.Minute

// longer runs for longer and longer, until the result shows something: a machine may be slow.
func longer(t *testing.T, o Options, shows func(Result) bool) (Result, error) {
	t.Helper()
	for {
		got, err := Run(t.Context(), o)
		if shows(got) || o.For > timeout {
			return got, err
		}
		o.For *= 2
	}
}

func options(url string, mode Mode) Options {
	return Options{URLs: []string{url}, ConnectTimeout: timeout, settleTimeout: timeout, Mode: mode, For: 300 * time.Millisecond, Size: 100, Publishers: 2, Window: 10,
		Consumers: 3, Prefetch: 20, QueueType: "quorum"}
}

func TestModes(t *testing.T) {
	t.Parallel()
	server := &broker.Server{}
	url := serve(t, server)
	for _, mode := range []Mode{Both, Publish, Consume} {
		t.Run(string(mode), func(t *testing.T) {
			got, err := longer(t, options(url, mode), func(r Result) bool {
				return (r.Published == nil || r.Published.Messages > 0) && (r.Consumed == nil || r.Consumed.Messages > 0)
			})
			if err != nil {
				t.Fatal(err)
			}
			if (got.Published != nil) != (mode != Consume) || (got.Consumed != nil) != (mode != Publish) {
				t.Fatalf("published %v, consumed %v in mode %s", got.Published, got.Consumed, mode)
			}
			if p := got.Published; p != nil && (p.Messages == 0 || p.Rate <= 0 || p.Workers != 2 || p.Latency.P50 <= 0 || p.Latency.P50 > p.Latency.Max) {
				t.Errorf("published %+v, latency %+v: want messages, a rate, two workers and latencies in order", p, p.Latency)
			}
			if c := got.Consumed; c != nil && (c.Messages == 0 || c.Rate <= 0 || c.Workers != 3 || (c.Latency != nil) != (mode == Both)) {
				t.Errorf("consumed %+v: want messages, a rate, three workers, and latencies where both ran", c)
			}
			if mode == Both && (got.Consumed.Messages != got.Published.Messages || got.Consumed.Seconds > timeout.Seconds()) {
				t.Errorf("consumed %d of %d messages in %v s, want all, and an end when the last has come", got.Consumed.Messages, got.Published.Messages, got.Consumed.Seconds)
			}
			if mode == Publish && got.Left != got.Published.Messages {
				t.Errorf("%d messages were in the queue at the end, want the %d that were published", got.Left, got.Published.Messages)
			}
			var timeline Moment
			for _, m := range got.Timeline {
				timeline.Published += m.Published
				timeline.Consumed += m.Consumed
			}
			if got.Published != nil && timeline.Published != got.Published.Messages || got.Consumed != nil && timeline.Consumed != got.Consumed.Messages {
				t.Errorf("the timeline adds up to %+v, want the sums", timeline)
			}
			if !strings.Contains(got.Broker, " ") {
				t.Errorf("the broker is %q, want its name and version", got.Broker)
			}
		})
	}
	if left := queues(t, server); len(left) > 0 {
		t.Errorf("queues %q are left behind", left)
	}
}

// queues are those that the broker has.
func queues(t *testing.T, server *broker.Server) (names []string) {
	t.Helper()
	control, err := brokertest.Open(server)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range control.Queues("/") {
		names = append(names, q.Name)
	}
	return names
}

// What was measured until somebody breaks it off is there, and the queue is not.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	server := &broker.Server{}
	o := options(serve(t, server), Both)
	o.For = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Progress = func(_, consumed int64) {
		if consumed > 0 {
			cancel()
		}
	}
	got, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	if got.Published == nil || got.Published.Messages == 0 || got.Consumed == nil || got.Consumed.Messages == 0 {
		t.Errorf("published %v, consumed %v: want some of both", got.Published, got.Consumed)
	}
	if left := queues(t, server); len(left) > 0 {
		t.Errorf("queues %q are left behind", left)
	}
}

// Somebody deletes the queue meanwhile.
func TestQueueDeleted(t *testing.T) {
	t.Parallel()
	server := &broker.Server{}
	url := serve(t, server)
	for _, mode := range []Mode{Both, Publish} {
		t.Run(string(mode), func(t *testing.T) {
			o := options(url, mode)
			o.For = time.Second
			deleted := false
			o.Progress = func(published, _ int64) {
				if published > 0 && !deleted {
					deleted = true
					deleteAll(t, url, queues(t, server))
				}
			}
			got, err := longer(t, o, func(r Result) bool {
				shows := r.Refused > 0
				deleted = false
				return shows
			})
			if mode == Both && (err == nil || !strings.Contains(err.Error(), "the queue was deleted")) {
				t.Errorf("got %v, want an error that says so", err)
			}
			if got.Refused == 0 {
				t.Errorf("no message was refused, want those that found no queue")
			}
		})
	}
}

// A broker that has run out of memory stops reading. The bench ends anyway, reports why, and leaves nothing behind.
func TestBlocked(t *testing.T) {
	t.Parallel()
	server := &broker.Server{MemoryLimit: 1 << 20}
	o := options(serve(t, server), Publish)
	o.Size, o.Window, o.For = 100_000, 100, time.Hour
	var got Result
	var err error
	for o.settleTimeout = 500 * time.Millisecond; o.settleTimeout < timeout; o.settleTimeout *= 2 { // on a slow machine even the first confirm takes longer
		if got, err = Run(t.Context(), o); got.Published != nil && got.Published.Messages > 0 {
			break
		}
	}
	if want := fmt.Sprintf("no confirm within %v", o.settleTimeout); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error that says %q", err, want)
	}
	if got.Published == nil || got.Published.Messages == 0 {
		t.Errorf("published %v, want what was confirmed before", got.Published)
	}
	if left := queues(t, server); len(left) > 0 {
		t.Errorf("queues %q are left behind", left)
	}
}

func deleteAll(t *testing.T, url string, queues []string) {
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Error(err)
		return
	}
	for _, q := range queues {
		if _, err := ch.QueueDelete(q, false, false, false); err != nil {
			t.Error(err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), options("amqp://user:secret@"+nobody+"/", Both))
	if _, is := errors.AsType[*UnreachableError](err); !is || !strings.Contains(err.Error(), nobody) {
		t.Errorf("got %v, want an UnreachableError that names %s", err, nobody)
	}
	refused := serve(t, &broker.Server{})
	_, wrong := Run(t.Context(), options(strings.Replace(refused, "guest:guest", "user:secret", 1), Both))
	_, scheme := Run(t.Context(), options("http://user:secret@localhost/", Both))
	_, garbled := Run(t.Context(), options("amqp://user:secret@local host/%zz", Both))
	for _, err := range []error{err, wrong, scheme, garbled} {
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want an error without the password", err)
		}
	}
}

func TestValidate(t *testing.T) {
	err := Options{Mode: "some", QueueType: "lazy", Size: -1, Publishers: 0, Window: 1, Consumers: 1, Prefetch: 100_000}.Validate()
	for _, want := range []string{`mode "some"`, `queue type "lazy"`, "the time 0s", "the size -1", "publishers: 0", "prefetch: 100000"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the faults are %v, want %q among them", err, want)
		}
	}
}

func TestHistogram(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var whole, half histogram
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(random.ExpFloat64() * float64(5*time.Millisecond))
		all = append(all, d)
		if len(all)%2 == 0 {
			whole.add(d)
		} else {
			half.add(d)
		}
	}
	whole.merge(&half)
	slices.Sort(all)
	for _, part := range []float64{0, .01, .5, .9, .99, .999, 1} {
		got, want := whole.quantile(part), all[int(part*float64(len(all)-1))]
		if got < want || float64(got) > float64(want)*(1+2.0/slots)+1 {
			t.Errorf("quantile %v: got %v, want %v or a little more", part, got, want)
		}
	}
	for d := time.Duration(1); d > 0 && d < time.Hour; d = d*3/2 + 1 {
		if b := bucket(d); top(b) < d || b > 0 && top(b-1) >= d {
			t.Errorf("%v is in bucket %d, which ends with %v", d, b, top(b))
		}
	}
}

// The plot is XML, whatever a broker calls itself, and empty results have one, too.
func TestPlot(t *testing.T) {
	latency := &Latency{P50: .001, P90: .002, P99: .01, P999: .1, Max: 2}
	for name, r := range map[string]Result{
		"both": {Broker: "<&> 1", Published: &Flow{Messages: 9, Latency: latency}, Consumed: &Flow{Messages: 9, Latency: latency},
			Timeline: []Moment{{At: .25, Published: 4, Consumed: 3}, {At: .5, Published: 5, Consumed: 6}}},
		"consume": {Consumed: &Flow{Messages: 9}, Timeline: []Moment{{At: .25, Consumed: 9}}},
		"nothing": {Published: &Flow{Latency: &Latency{}}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := r.Plot(&out); err != nil {
				t.Fatal(err)
			}
			for reader := xml.NewDecoder(bytes.NewReader(out.Bytes())); ; {
				if _, err := reader.Token(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					t.Fatalf("not XML: %v", err)
				}
			}
			if text := out.String(); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
				t.Errorf("numbers that are none:\n%s", text)
			}
		})
	}
}
