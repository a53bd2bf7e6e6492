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

// StatusError is an answer that is not 2xx.
type StatusError struct {
	Endpoint string // without credentials and query
	Code     int
	Answer   string // the beginning of the body, on one line
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("POST %s: %d %s", e.Endpoint, e.Code, http.StatusText(e.Code))
	if e.Answer != "" {
		text += ": " + e.Answer
	}
	return text
}

const (
	excerptBytes = 4 << 10  // of an answer are looked at,
	excerptRunes = 300      // are shown,
	drainBytes   = 64 << 10 // and are read at the most, so that the connection can be used again,
	drainTime    = 2 * time.Second
)

// read reads the beginning of an answer's body, and some of the rest. What the status says does not depend on
// it: an endpoint that never comes to an end costs its connection, and no more time than that.
func read(body io.Reader, cancel context.CancelFunc) []byte {
	timer := time.AfterFunc(drainTime, cancel)
	defer timer.Stop()
	beginning, err := io.ReadAll(io.LimitReader(body, excerptBytes))
	if err == nil {
		_, _ = io.CopyN(io.Discard, body, drainBytes-excerptBytes)
	}
	return beginning
}

// judge says what an answer means for the message.
func (e *endpoint) judge(response *http.Response, beginning []byte) error {
	code := response.StatusCode
	if response.Request.Method != http.MethodPost {
		return fmt.Errorf("POST %s: it was redirected as a %s, whose answer, %d, says nothing about the message", e.name, response.Request.Method, code)
	}
	if code >= 200 && code < 300 {
		return nil
	}
	failure := &StatusError{Endpoint: e.name, Code: code, Answer: e.shown(string(beginning))}
	if location, err := response.Location(); err == nil && code >= 300 && code < 400 {
		failure.Answer = "redirected to " + e.shown(place(location)) + ", which is not followed"
	}
	if !e.retryAll && code >= 400 && code < 500 && !passes(code) {
		return rehop.Permanent(failure)
	}
	if wait, ok := retryAfter(response.Header.Get("Retry-After"), time.Now(), e.maxWait); ok {
		return rehop.RetryAfter(wait, failure)
	}
	return failure
}

// passes reports whether an error of the client's may be none the next time.
func passes(code int) bool {
	return code == http.StatusRequestTimeout || code == http.StatusTooEarly || code == http.StatusTooManyRequests
}

// retryAfter reads how long an answer asks to wait: seconds, or a date. At once, or at a time that has passed, is no wait: then
// the schedule holds, which goes easier on an endpoint that is in trouble.
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

// shown is what others have said, on one line, without secrets and without what a terminal might obey.
func (e *endpoint) shown(text string) string {
	text = e.secrets.Replace(text)
	var out strings.Builder
	runes, blank := 0, false
	for _, c := range strings.ToValidUTF8(text, "\uFFFD") {
		if unicode.IsSpace(c) || !unicode.IsPrint(c) {
			blank = true
			continue
		}
		if runes == excerptRunes {
			out.WriteString("…")
			break
		}
		if blank && out.Len() > 0 {
			out.WriteByte(' ')
		}
		out.WriteRune(c)
		blank = false
		runes++
	}
	return out.String()
}
