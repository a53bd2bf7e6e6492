package target

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rehop/rehop"
)

// HTTP is a handler that posts the body of each message to a URL. An answer of 2xx means that the message is handled. Every other answer,
// and no answer in time, is a failure:
//
//   - 408, 425, 429, 5xx, a redirect that is not followed, no answer: the message is retried by the subscription's schedule, or after the
//     Retry-After of the answer;
//   - other 4xx: the message goes to the failed queue without further attempts, unless RetryAll is set.
//
// Delivery is at least once, so the endpoint may receive a message again. Use the header Webhook-Id, the id of the message, to recognize
// it.
//
// An HTTP is safe for concurrent use. Do not change its fields after its first use.
type HTTP struct {
	// URL is the endpoint. A user and password in it are sent as basic authentication. Required.
	URL string
	// Client sends the requests. Default: a client that keeps connections open, uses the proxy of the environment, and follows only
	// redirects with 307 and 308 to the same host. Other redirects would turn the POST into a GET, or send the headers to another host.
	// A client without CheckRedirect gets the same rule.
	Client *http.Client
	// TLS names files for https. It cannot be combined with Client. Default: the system's root certificates, and no client certificate.
	TLS TLS
	// RefusePrivate refuses connections to addresses that are not on the public internet: this machine, private networks, link-local
	// addresses such as 169.254.169.254, and what is reserved. Set it if somebody else chooses the URL, or the address to which its name
	// points. The address is checked when the connection is made, so a name that changes its address is of no use, and neither is a
	// redirect. The proxy of the environment is not used. It cannot be combined with Client. Default: false.
	RefusePrivate bool
	// Timeout bounds one request. Keep it below the subscription's timeout. Default: 30 s.
	Timeout time.Duration
	// Header is sent with every request. It overrides headers from the message. Default: none.
	Header http.Header
	// HeaderPrefix begins the names of the headers that describe the message. Default: Rehop-.
	//
	// They are Message-Id, Queue, Exchange, Key, Attempt, Max-Attempts, Redelivered, Replays, First-Failed, Timestamp, Type,
	// Correlation-Id, Reply-To and App-Id, if the message has them, and Header- with the name of each header of the message. In values, %
	// and everything but printable ASCII is percent-encoded. Names that HTTP does not allow, and values that do not fit, are left out;
	// Left-Out is their number.
	HeaderPrefix string
	// BodyOnly leaves out the headers that describe the message. Content type, content encoding and Webhook-Id are still sent. Default:
	// they are sent.
	BodyOnly bool
	// Secrets sign each request by the Standard Webhooks specification, so that the endpoint can verify the sender. To replace a secret,
	// add the new one, change the endpoint, and remove the old one: each request is signed with all of them. Default: requests are not
	// signed.
	Secrets []Secret
	// Carry sets headers with the context of an attempt, such as traceparent. Use rehopotel.Telemetry.Carry to pass traces on. Default:
	// none.
	Carry func(ctx context.Context, set func(name, value string))
	// RetryAll retries after every answer that is not 2xx. Default: most 4xx are not retried, see above.
	RetryAll bool
	// MaxRetryAfter is the longest delay that a Retry-After can ask for. Default: 24 h.
	MaxRetryAfter time.Duration

	once     sync.Once
	endpoint *endpoint
	fault    error
}

var _ rehop.Handler = (*HTTP)(nil)

// Validate returns all errors in the settings. Call it when the program starts: with invalid settings, the subscription pauses at the
// first message.
//
// It reads the files of TLS.
func (h *HTTP) Validate() error {
	_, err := newEndpoint(h)
	if _, _, unusable := h.TLS.load(); unusable != nil {
		err = errors.Join(err, fmt.Errorf("target: %w", unusable))
	}
	return err
}

// Handle posts the message and waits for the answer.
func (h *HTTP) Handle(ctx context.Context, d *rehop.Delivery) error {
	h.once.Do(func() { h.endpoint, h.fault = newEndpoint(h) })
	if h.fault != nil {
		return rehop.Unavailable(h.fault) // not the message's fault
	}
	return h.endpoint.post(ctx, d)
}

// Close closes idle connections of the default client. A client of yours stays open.
func (h *HTTP) Close() {
	h.once.Do(func() { h.fault = errClosed })
	if h.Client == nil && h.endpoint != nil {
		h.endpoint.client.CloseIdleConnections()
	}
}

var errClosed = errors.New("target: closed")

// String returns the endpoint without secrets, as in: POST https://example.com/orders.
func (h *HTTP) String() string {
	u, err := parseURL(h.URL)
	if err != nil {
		return "POST to an invalid URL"
	}
	return "POST " + place(u)
}

// GoString returns String, because the fields contain secrets.
func (h *HTTP) GoString() string { return h.String() }
