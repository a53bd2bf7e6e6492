package target

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/layouts"
)

// The example that the authors of Standard Webhooks give with their libraries.
func TestSignatureOfTheStandard(t *testing.T) {
	t.Parallel()
	key, err := Secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").key()
	if err != nil {
		t.Fatal(err)
	}
	header := make(http.Header)
	sign(header, [][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	for name, want := range map[string]string{
		"webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330", "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// Any message can be described in headers, and read again.
func FuzzDescribe(f *testing.F) {
	f.Add("name", "value")
	f.Add("X-Evil: 1\r\n", "a\r\nb")
	f.Add("", " % \x00\xff ü ")
	f.Fuzz(func(t *testing.T, name, value string) {
		header := make(http.Header)
		describe(header, "R-", &rehop.Delivery{Message: rehop.Message{ID: value, Headers: map[string]any{name: value}}})
		size := 0
		for name, values := range header {
			size += len(name) + len(values[0])
			if !isToken(name) || !isPrintable(values[0]) || strings.TrimSpace(values[0]) != values[0] {
				t.Errorf("got header %q: %q, want one that HTTP allows", name, values[0])
			}
			if name == "R-Left-Out" {
				continue
			}
			if back, err := url.PathUnescape(values[0]); err != nil || back != value {
				t.Errorf("got %q, which means %q (%v), want %q", values[0], back, err, value)
			}
		}
		if size > describeBytes+100 {
			t.Errorf("got %d bytes, want at most %d", size, describeBytes)
		}
	})
}

// Any answer of an endpoint fits on a line.
func FuzzShown(f *testing.F) {
	f.Add("so\r\nit is\x1b[2J", "secret")
	f.Add(strings.Repeat("ü ", 1000), "")
	f.Add("\xff\xfe\u202e", "x")
	f.Fuzz(func(t *testing.T, text, secret string) {
		e := &endpoint{secrets: hiding(&HTTP{Header: http.Header{"A": {secret}}}, &url.URL{})}
		got := e.shown(text)
		if len([]rune(got)) > excerptRunes+1 {
			t.Errorf("got %d characters, want at most %d", len([]rune(got)), excerptRunes)
		}
		if strings.ContainsFunc(got, func(c rune) bool { return !unicode.IsPrint(c) }) {
			t.Errorf("got %q, want nothing that is not printed", got)
		}
		if len(secret) >= leastSecret && !strings.Contains(secret, "…") && strings.Contains(text, secret) && strings.Contains(got, secret) && !strings.Contains(strings.ReplaceAll(text, secret, "…"), secret) {
			t.Errorf("got %q, want nothing of %q", got, secret)
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("120")
	f.Add("Fri, 31 Dec 1999 23:59:59 GMT")
	f.Add("18446744073709551616")
	f.Fuzz(func(t *testing.T, text string) {
		wait, ok := retryAfter(text, time.Unix(1_700_000_000, 0), layouts.MaxDelay)
		if ok && (wait <= 0 || wait > layouts.MaxDelay) {
			t.Errorf("%q: got %v, want a wait that is possible", text, wait)
		}
	})
}
