package serve

import (
	"io"
	"net/http"
	"time"
)

const (
	bodyPause   = 30 * time.Second // how long a client may send nothing of a body
	bodyTimeout = 5 * time.Minute  // how long a whole body may take
)

// withBodyTimeout limits how long the bodies of requests may take. What a handler does afterwards takes as long as it needs.
func withBodyTimeout(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 { // otherwise the server waits for the next request, without a limit
			body := &slowBody{ReadCloser: r.Body, control: http.NewResponseController(w), end: time.Now().Add(bodyTimeout)}
			body.extend()
			r.Body = body
		}
		handler.ServeHTTP(w, r)
	})
}

// slowBody is a body of which something has to arrive from time to time.
type slowBody struct {
	io.ReadCloser
	control *http.ResponseController
	end     time.Time
}

func (b *slowBody) extend() {
	next := time.Now().Add(bodyPause)
	if next.After(b.end) {
		next = b.end
	}
	_ = b.control.SetReadDeadline(next)
}

func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case err == io.EOF:
		_ = b.control.SetReadDeadline(time.Time{})
	case n > 0:
		b.extend()
	}
	return n, err
}
