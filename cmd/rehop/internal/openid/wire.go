package openid

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

const (
	// answerTimeout is how long the provider may take to answer, with the whole body.
	answerTimeout = 10 * time.Second
	// largestAnswer is how many bytes an answer of the provider may have.
	largestAnswer = 1 << 20
)

// wire is the connection to the provider. It reads answers as a whole, so that all of them are bounded and end with it.
type wire struct {
	next    *http.Transport
	closing context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex // nothing is asked after close
	closed  bool
}

// newWire returns a wire that trusts the certificates in a file, or those of the system.
func newWire(ca string) (*wire, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		var err error
		if settings.RootCAs, err = config.LoadSigners(ca); err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
	}
	w := &wire{next: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings, ForceAttemptHTTP2: true, MaxConnsPerHost: 8, MaxIdleConns: 1, IdleConnTimeout: 30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10}}
	w.closing, w.cancel = context.WithCancel(context.Background())
	return w, nil
}

// client returns an HTTP client. It follows no redirects: they could lead to a server that is not the provider.
func (w *wire) client() *http.Client {
	return &http.Client{Transport: w, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// RoundTrip sends a request, and reads the whole answer.
func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := w.begin(); err != nil {
		return nil, err
	}
	defer w.running.Done()
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	defer context.AfterFunc(w.closing, cancel)()
	answer, err := w.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, largestAnswer+1))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(body) > largestAnswer {
		return nil, fmt.Errorf("the answer has more than %d bytes", largestAnswer)
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer, nil
}

func (w *wire) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errors.New("the console is being closed")
	}
	w.running.Add(1)
	return nil
}

func (w *wire) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cancel()
	w.running.Wait()
	w.next.CloseIdleConnections()
}

// cause is an error of a request without its URL and without answers of any length, which can have secrets.
func cause(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	if text := err.Error(); len(text) > maxShown || shown(text) != text {
		return errors.New(shown(text))
	}
	return err
}
