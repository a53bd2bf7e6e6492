package cli

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"
)

// A tail that is interrupted before it watches reports the interruption, not what it was waiting for.
func TestTailInterruptedBeforeItBegins(t *testing.T) {
	url, _ := mortal(t, 0)
	for _, count := range []string{"0", "3"} {
		ctx, interrupt := context.WithCancel(t.Context())
		s, _, errs := program(nil, beforeConsume(t, url, interrupt))
		code := Run(ctx, []string{"tail", "--exchange", "amq.topic", "--key", "#", "--count", count}, s)
		interrupt()
		want, text := exitInterrupted, "rehop: interrupted\n"
		if count == "0" { // to be interrupted is its usual end
			want, text = exitDone, ""
		}
		if code != want || errs.String() != text {
			t.Errorf("--count %s: got code %d and %q, want %d and %q", count, code, errs, want, text)
		}
	}
}

// A tail whose broker does not answer does not take that for the end of its time.
func TestTailForWithoutAnswer(t *testing.T) {
	url, _ := mortal(t, 0)
	s, _, errs := program(nil, beforeConsume(t, url, func() {}))
	code := Run(t.Context(), []string{"tail", "--exchange", "amq.topic", "--key", "#", "--for", "1ns", "--connect-timeout", "2s"}, s)
	if code != exitUnreachable || !strings.Contains(errs.String(), "has not answered within 2s") {
		t.Errorf("got code %d and %q, want %d, and that the broker has not answered", code, errs, exitUnreachable)
	}
}

// beforeConsume is the URL of a way to a broker on which look is called when a client wants to consume; from then on the broker hears nothing
// of that client.
func beforeConsume(t *testing.T, url string, meanwhile func()) string {
	t.Helper()
	return wayTo(t, url, func(server, client net.Conn) {
		defer server.Close()
		defer client.Close()
		b := make([]byte, 32<<10)
		for deaf := false; ; {
			n, err := client.Read(b)
			if !deaf && bytes.Contains(b[:n], basicConsume) {
				deaf = true
				meanwhile()
			}
			if err != nil {
				return
			}
			if deaf {
				continue
			}
			if _, err := server.Write(b[:n]); err != nil {
				return
			}
		}
	})
}

// basicConsume is the class and the method as they go over the wire.
var basicConsume = []byte{0, 60, 0, 20}
