package target

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/rehop/rehop"
)

// HTTP is a handler that posts the body of each message to a URL. An answer of 2xx means that the message is done;
// every other answer, and none in time, is a failure:
//
//   - 408, 425, 429, 5xx, a redirect that is not followed, no answer: the message is tried again by the
//     subscription's schedule, or after what the answer's Retry-After says;
//   - other 4xx: it goes to the failed queue at once, unless RetryAll is set.
//
// As everything here is at least once, the endpoint may see a message again. It can tell by the header Webhook-Id,
// which is the message's id.
//
// It is safe for concurrent use. Its fields must not be changed once it has been used.
type HTTP struct {
	// URL is where messages are posted to. User and password in it are sent as basic authentication.
	URL string
	// Client sends the requests. Default: one that keeps connections open, uses the proxy of the environment,
	// and follows only redirects by 307 and 308 to the same host: others turn a POST into a GET, which says
	// nothing about the message, or take its headers to strangers. A client without CheckRedirect gets
	// this rule too.
	Client *http.Client
	// Timeout bounds one request. Keep it below the subscription's. Default: 30 s.
	Timeout time.Duration
	// Header is sent with every request, and overrides what comes from the message. Default: none.
	Header http.Header
	// HeaderPrefix begins the names of the headers that describe the message. Default: Rehop-.
	//
	// They are Message-Id, Queue, Exchange, Key, Attempt, Max-Attempts, Redelivered, Replays, First-Failed, Timestamp,
	// Type, Correlation-Id, Reply-To, App-Id, as far as the message has them, and Header- with the name of each
	// header of the message. In values, % and all but printable ASCII is percent-encoded. A name that HTTP
	// does not allow, and what is too much, is left out; Left-Out says how many.
	HeaderPrefix string
	// BodyOnly sends no headers that describe the message, only its content type and encoding, and Webhook-Id.
	// Default: they are sent.
	BodyOnly bool
	// Secrets sign each request as Standard Webhooks has it, so that the endpoint can tell that it comes from here.
	// With several, it is signed by each: add the new one, change the endpoint, remove the old one.
	// Default: requests are not signed.
	Secrets []Secret
	// Carry sets headers that carry the context of an attempt on, such as that of a trace; rehopotel.Telemetry.Carry is one. Default: none are set.
	Carry func(ctx context.Context, set func(name, value string))
	// RetryAll: whatever is not 2xx is tried again. Default: a 4xx that a repetition would not change is not.
	RetryAll bool
	// MaxRetryAfter bounds the wait that an answer can ask for. Default: 24 h.
	MaxRetryAfter time.Duration

	once     sync.Once
	endpoint *endpoint
	fault    error
}

var _ rehop.Handler = (*HTTP)(nil)

// Validate reports all faults of the settings. Programs call it when they start; a message that meets such a fault
// waits until somebody has mended it.
func (h *HTTP) Validate() error {
	_, err := newEndpoint(h)
	return err
}

// Handle posts the message.
func (h *HTTP) Handle(ctx context.Context, d *rehop.Delivery) error {
	h.once.Do(func() { h.endpoint, h.fault = newEndpoint(h) })
	if h.fault != nil {
		return rehop.Unavailable(h.fault) // which is not the message's
	}
	return h.endpoint.post(ctx, d)
}

// Close closes the connections that nobody uses any more, if the client is the default one.
func (h *HTTP) Close() {
	h.once.Do(func() { h.fault = errClosed })
	if h.Client == nil && h.endpoint != nil {
		h.endpoint.client.CloseIdleConnections()
	}
}

var errClosed = errors.New("target: closed")

// String says where messages are posted, without what may be secret in the URL.
func (h *HTTP) String() string {
	u, err := parseURL(h.URL)
	if err != nil {
		return "POST to an invalid URL"
	}
	return "POST " + place(u)
}

// GoString is String: there are secrets in the fields.
func (h *HTTP) GoString() string { return h.String() }
