package target

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/layouts"
)

// defaultMaxRetryAfter bounds the harm of an endpoint that sends nonsense: the message is retried the next day.
const defaultMaxRetryAfter = 24 * time.Hour

// endpoint is the settings of an HTTP target, checked and with their defaults.
type endpoint struct {
	url      *url.URL
	name     string // the URL as errors may show it
	client   *http.Client
	timeout  time.Duration
	header   http.Header
	prefix   string
	bodyOnly bool
	keys     [][]byte
	carry    func(ctx context.Context, set func(name, value string))
	retryAll bool
	maxWait  time.Duration
	secrets  *strings.Replacer // hides what must not be shown
}

func newEndpoint(h *HTTP) (*endpoint, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("target: "+format, args...)) }
	e := &endpoint{
		client: clientFor(h), timeout: cmp.Or(h.Timeout, 30*time.Second), header: h.Header.Clone(),
		prefix: cmp.Or(h.HeaderPrefix, "Rehop-"), bodyOnly: h.BodyOnly, carry: h.Carry, retryAll: h.RetryAll, maxWait: cmp.Or(h.MaxRetryAfter, defaultMaxRetryAfter),
	}
	u, err := parseURL(h.URL)
	if err != nil {
		fault("URL %w", err)
	} else {
		e.url, e.name = u, place(u)
		e.secrets = hiding(h, u)
	}
	if address, err := netip.ParseAddr(hostOf(u)); err == nil && h.RefusePrivate && isPrivate(address) {
		fault("URL has the address %s, which is not on the public internet and RefusePrivate refuses", address)
	}
	if h.Client != nil && (h.TLS != (TLS{}) || h.RefusePrivate) {
		fault("Client cannot be combined with TLS and RefusePrivate: configure its transport")
	}
	if e.timeout < time.Millisecond {
		fault("Timeout %v must be at least 1 ms", e.timeout)
	}
	if e.maxWait < time.Millisecond || e.maxWait > layouts.MaxDelay {
		fault("MaxRetryAfter %v must be from 1 ms to %v", e.maxWait, layouts.MaxDelay)
	}
	if !isToken(e.prefix) {
		fault("HeaderPrefix %q must have only letters, digits, and - _ .", e.prefix)
	}
	for name, values := range h.Header {
		if !isToken(name) {
			fault("Header: the name %q must have only letters, digits, and - _ .", name)
		}
		for _, value := range values {
			if strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
				fault("Header: the value of %q has characters that HTTP does not allow", name)
			}
		}
		switch http.CanonicalHeaderKey(name) {
		case HeaderID, HeaderTimestamp, HeaderSignature:
			fault("Header: %q is set for each message", name)
		}
	}
	for i, s := range h.Secrets {
		key, err := s.key()
		if err != nil {
			fault("secret %d: %w", i+1, err)
		}
		e.keys = append(e.keys, key)
	}
	return e, errors.Join(faults...)
}

// parseURL parses a URL. Its errors do not contain the URL, which may have a password anywhere.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case text == "":
		return nil, errors.New("is empty")
	case err != nil:
		return nil, errors.New("cannot be read as one; it is not shown, as it may have a password in it")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must begin with http:// or https://")
	case u.Hostname() == "":
		return nil, errors.New("has no host")
	}
	return u, nil
}

// hostOf is the host of a URL, if there is one.
func hostOf(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Hostname()
}

// place is a URL without credentials and query.
func place(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// leastSecret is how long a value must be to be hidden. Shorter values are not secrets, and would match everywhere.
const leastSecret = 6

// hiding returns a replacer for the credentials of the settings, in case the endpoint repeats them in its answer.
func hiding(h *HTTP, u *url.URL) *strings.Replacer {
	var values []string
	password, _ := u.User.Password()
	values = append(values, u.RawQuery, password, base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)))
	for _, all := range u.Query() {
		values = append(values, all...)
	}
	for _, all := range h.Header {
		for _, value := range all {
			values = append(values, value)
			values = append(values, strings.Fields(value)...) // Bearer and the token
		}
	}
	for _, s := range h.Secrets {
		values = append(values, string(s), strings.TrimPrefix(string(s), secretPrefix))
	}
	var pairs []string
	for _, value := range values {
		if len(value) >= leastSecret {
			pairs = append(pairs, value, "…")
		}
	}
	return strings.NewReplacer(pairs...)
}

// errNoAnswer is the reason for canceling a request.
var errNoAnswer = errors.New("no answer in time")

// post sends a message and returns the result of the handler.
func (e *endpoint) post(ctx context.Context, d *rehop.Delivery) error {
	ctx, cancel := context.WithTimeoutCause(ctx, e.timeout, errNoAnswer)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url.String(), bytes.NewReader(d.Body))
	if err != nil {
		return rehop.Unavailable(fmt.Errorf("POST %s: the request cannot be made", e.name))
	}
	e.fill(request, d)
	response, err := e.client.Do(request)
	if _, unusable := errors.AsType[*filesError](err); unusable {
		return rehop.Unavailable(e.unanswered(ctx, err))
	}
	if err != nil {
		return e.unanswered(ctx, err)
	}
	defer response.Body.Close()
	var beginning []byte
	if response.ContentLength != 0 {
		beginning = read(response.Body, cancel)
	}
	return e.judge(response, beginning)
}

func (e *endpoint) fill(request *http.Request, d *rehop.Delivery) {
	header := request.Header
	header.Set("User-Agent", "rehop")
	header.Set("Content-Type", "application/octet-stream")
	if isPrintable(d.ContentType) && d.ContentType != "" {
		header.Set("Content-Type", d.ContentType)
	}
	if isPrintable(d.ContentEncoding) && d.ContentEncoding != "" {
		header.Set("Content-Encoding", d.ContentEncoding)
	}
	id := d.StableID()
	if id == "" {
		id = rehop.NewID() // not derived from the body: two messages may have the same
	}
	if !e.bodyOnly {
		describe(header, e.prefix, d)
	}
	if e.carry != nil {
		e.carry(request.Context(), func(name, value string) {
			if isToken(name) && isPrintable(value) {
				header.Set(name, value)
			}
		})
	}
	for name, values := range e.header {
		header[http.CanonicalHeaderKey(name)] = values
	}
	if host := header.Get("Host"); host != "" {
		request.Host = host
	}
	sign(header, e.keys, encoded(id), time.Now(), d.Body)
}

// unanswered is the error of a request without an answer. The client's own error has the URL with its query, and sometimes text from the
// endpoint.
func (e *endpoint) unanswered(ctx context.Context, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	switch cause := context.Cause(ctx); cause {
	case nil:
		return &requestError{fmt.Sprintf("POST %s: %s", e.name, e.shown(err.Error())), err}
	case errNoAnswer:
		return &requestError{fmt.Sprintf("POST %s: no answer within %v", e.name, e.timeout), context.DeadlineExceeded}
	default: // the handler's time is up, or the subscription stops
		return &requestError{fmt.Sprintf("POST %s: no answer yet: %v", e.name, cause), cause}
	}
}

// requestError is an error with a text that is safe to show.
type requestError struct {
	text string
	err  error
}

func (e *requestError) Error() string { return e.text }
func (e *requestError) Unwrap() error { return e.err }
