package target_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
	"github.com/rehop/rehop/target"
)

// A message that somebody else has published without an id has the same one at every attempt, wherever it goes.
func TestIDOfAMessageWithoutOne(t *testing.T) {
	t.Parallel()
	b := rehoptest.Open(t)
	type request struct{ webhook, told string }
	seen := make(chan request, 2)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- request{r.Header.Get(target.HeaderID), r.Header.Get("Rehop-Message-Id")}
		if r.Header.Get("Rehop-Attempt") == "1" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(endpoint.Close)
	handler := open(t, &target.HTTP{URL: endpoint.URL})
	if _, err := b.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: "q", Handler: handler, Retry: rehop.Steps(time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	config := b.Config()
	conn, err := amqp.DialConfig(config.URL, amqp.Config{Dial: func(network, addr string) (net.Conn, error) { return config.Dial(t.Context(), network, addr) }})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.PublishWithContext(t.Context(), "", "q", false, false, amqp.Publishing{Body: []byte("no id")}); err != nil {
		t.Fatal(err)
	}
	first, second := <-seen, <-seen
	if first.webhook == "" || first != second || first.webhook != first.told {
		t.Errorf("got %+v and then %+v, want the same id everywhere", first, second)
	}
	b.AwaitEmpty("q")
}
