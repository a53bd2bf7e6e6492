package rabbit

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// A plain connection to a port that does not answer in AMQP, such as one for TLS, fails with a hint.
func TestNotAMQP(t *testing.T) {
	for name, answer := range map[string]string{"nothing": "", "a TLS alert": "\x15\x03\x01\x00\x02\x02\x0a", "HTTP": "HTTP/1.1 400 Bad Request\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				protocol := make([]byte, 8)
				_, _ = conn.Read(protocol)
				_, _ = conn.Write([]byte(answer))
			}()
			o := Options{Dial: (&net.Dialer{}).DialContext, DialTimeout: time.Minute}
			_, _, err = o.dial(t.Context(), "amqp://ann:secret@"+listener.Addr().String()+"/", "test")
			_ = listener.Close()
			<-served
			if _, is := errors.AsType[*NotAMQPError](err); !is || !strings.Contains(err.Error(), "write amqps://") || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want a NotAMQPError that names amqps, without the password", err)
			}
		})
	}
}
