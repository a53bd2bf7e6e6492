package letters_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/headerjson"
	"github.com/rehop/rehop/internal/letters"
	"github.com/rehop/rehop/internal/letters/golden"
)

// Whatever a message has in its body, headers and type, reading it does not panic, changes nothing in place, and gives a record that can
// be shown and used. Only frameworks that keep their record in the body change it.
func FuzzRead(f *testing.F) {
	for _, s := range golden.Samples() {
		headers, err := headerjson.Marshal(s.Letter.Headers)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s.Letter.Body, headers, s.Letter.Source, s.Letter.Type, s.Letter.ContentType)
	}
	for _, headers := range []string{
		`{"x-death":[]}`, `{"x-death":[null]}`, `{"x-death":{"queue":"a"}}`, `{"x-death":[{"queue":7,"reason":[],"count":"many","time":"now","routing-keys":"k"}]}`,
		`{"x-death":[{"queue":"a","reason":"rejected","count":-5,"routing-keys":[7]}]}`, `{"rascal":"of a play"}`, `{"rascal":{"originalQueue":"q","recovery":{"q":7}}}`,
		`{"rascal":{"originalQueue":"q","recovery":{"q":{"republished":9223372036854775807,"forwarded":9223372036854775807}},"error":[]}}`,
		`{"x-original-exchange":7,"x-original-routingKey":null}`, `{"MT-Reason":"fault","MT-Fault-InputAddress":"://","MT-Fault-RetryCount":2147483647,"MT-Redelivery-Count":2147483647}`,
		`{"NServiceBus.FailedQ":"a\u0000b","NServiceBus.TimeOfFailure":"2026-03-04 05:06:07:"}`, `{"retry_info":"[[1,2],{}]"}`, `{"lang":"py","task":"t","id":"7","retries":{"$type":"float","$value":"NaN"}}`,
	} {
		f.Add([]byte(`{"queue_name":"q","actor_name":"a","args":[],"kwargs":{},"options":{"retries":1e400,"traceback":7},"message_id":"1","message_timestamp":-1}`), []byte(headers), "dead", "", "application/json")
	}
	f.Fuzz(func(t *testing.T, body, headers []byte, source, typ, contentType string) {
		h, err := headerjson.Unmarshal(headers)
		if err != nil {
			h = map[string]any{"x-death": string(headers), "rascal": headers, "retry_info": string(headers), "MT-Reason": string(headers)}
		}
		before, err := headerjson.Marshal(h)
		if err != nil {
			return // AMQP has no such headers
		}
		bodyBefore := bytes.Clone(body)
		l, r := letters.Read(letters.Letter{Source: source, Headers: h, Body: body, Type: typ, ContentType: contentType})
		if after, err := headerjson.Marshal(h); err != nil || !bytes.Equal(after, before) || !bytes.Equal(body, bodyBefore) {
			t.Fatalf("the message was changed in place: %s, %s, %v", after, body, err)
		}
		switch r.By {
		case "EasyNetQ", "Sneakers", "dramatiq", "Celery", "MassTransit":
		default:
			if !bytes.Equal(l.Body, body) {
				t.Fatalf("%q: got body %q, want it unchanged", r.By, l.Body)
			}
		}
		if r.By == "" && !reflect.DeepEqual(r, letters.Record{}) {
			t.Fatalf("got %+v without a record", r)
		}
		for name, text := range map[string]string{"queue": r.Queue, "exchange": r.Exchange, "id": r.ID, "host": r.Host} {
			if len(text) > 255 || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\n") {
				t.Fatalf("%s: got %q", name, text)
			}
		}
		if r.Attempts < 0 || r.Attempts > 1_000_000 || len(r.Key) > 255 || len(r.Error) > envelope.MaxErrorText || len(r.Stack) > 32<<10 || !utf8.ValidString(r.Error) || !utf8.ValidString(r.Stack) {
			t.Fatalf("got %+v", r)
		}
		for _, at := range []int{r.FailedAt.UTC().Year(), r.FirstFailed.UTC().Year()} {
			if at < 0 || at > 9999 {
				t.Fatalf("got the year %d, which JSON cannot write", at)
			}
		}
		for name := range l.Headers {
			if envelope.Owned(name) {
				t.Fatalf("got the header %q of rehop or the broker", name)
			}
		}
	})
}
