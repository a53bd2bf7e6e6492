package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/rehop/rehop"
)

// StatusError is the error of an endpoint whose answer is not 2xx.
type StatusError struct {
	Endpoint string // without credentials and query
	Code     int
	Answer   string // the beginning of the body, on one line, without secrets of the settings
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("POST %s: %d %s", e.Endpoint, e.Code, http.StatusText(e.Code))
	if e.Answer != "" {
		text += ": " + e.Answer
	}
	return text
}

const (
	excerptBytes = 4 << 10  // of an answer are kept
	excerptRunes = 300      // of these are shown
	drainBytes   = 64 << 10 // are read at most, so that the connection can be reused
	drainTime    = 2 * time.Second
)

// read reads the beginning of an answer's body, and some of the rest. The outcome does not depend on it: a body that never ends costs only
// its connection and drainTime.
func read(body io.Reader, cancel context.CancelFunc) []byte {
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	beginning, err := io.ReadAll(io.LimitReader(body, excerptBytes))
	if err == nil {
		_, _ = io.CopyN(io.Discard, body, drainBytes-excerptBytes)
	}
	return beginning
}

// judge turns an answer into the result of the handler.
func (e *endpoint) judge(response *http.Response, beginning []byte) error {
	code := response.StatusCode
	if response.Request.Method != http.MethodPost {
		return fmt.Errorf("POST %s: it was redirected as a %s, so the answer %d does not mean that the message was handled", e.name, response.Request.Method, code)
	}
	if code >= 200 && code < 300 {
		return nil
	}
	failure := &StatusError{Endpoint: e.name, Code: code, Answer: e.shown(string(beginning))}
	if location, err := response.Location(); err == nil && code >= 300 && code < 400 {
		failure.Answer = "redirected to " + e.shown(place(location)) + ", which is not followed"
	}
	if !e.retryAll && code >= 400 && code < 500 && !isTemporary(code) {
		return rehop.Permanent(failure)
	}
	if wait, ok := retryAfter(response.Header.Get("Retry-After"), time.Now(), e.maxWait); ok {
		return rehop.RetryAfter(wait, failure)
	}
	return failure
}

// isTemporary reports whether a request with a 4xx may succeed the next time.
func isTemporary(code int) bool {
	return code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests
}

// retryAfter reads a Retry-After header: seconds, or a date. A wait of 0 or a date in the past is ignored: the subscription's schedule is
// gentler to an endpoint that has problems.
func retryAfter(text string, now time.Time, most time.Duration) (time.Duration, bool) {
	text = strings.TrimSpace(text)
	if at, err := http.ParseTime(text); err == nil {
		wait := at.Sub(now)
		return min(wait, most), wait > 0
	}
	seconds, err := strconv.ParseUint(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && seconds > uint64(most/time.Second):
		return most, true
	case err != nil:
		return 0, false
	}
	return time.Duration(seconds) * time.Second, seconds > 0
}

// shown is the beginning of an answer on one line, without secrets.
func (e *endpoint) shown(text string) string {
	line := oneLine(e.secrets.Replace(text))
	if len(line) > excerptRunes {
		return string(line[:excerptRunes]) + "…"
	}
	return string(line)
}

// oneLine is a text on one line, without control characters that a terminal would obey.
func oneLine(text string) []rune {
	words := strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) })
	return []rune(strings.Join(words, " "))
}
