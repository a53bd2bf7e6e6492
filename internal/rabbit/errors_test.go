package rabbit

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The texts are RabbitMQ's own, of 3.10 to 4.x.
func TestInequivalentArg(t *testing.T) {
	for _, test := range []struct{ text, argument, want, have string }{
		{"PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'order' in vhost '/': received 'topic' but current is 'fanout'", "type", "topic", "fanout"},
		{"PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'", "durable", "true", "false"},
		{"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received the value '6000' of type 'long' but current is the value '5000' of type 'long'", "x-message-ttl", "6000", "5000"},
		{"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received '6000' but current is '5000'", "x-message-ttl", "6000", "5000"},
		{"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue 'q' in vhost '/': received none but current is the value '5000' of type 'long'", "x-message-ttl", "none", "5000"},
		{"PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' in vhost '/': received the value 'rehop.unrouted' of type 'longstr' but current is none", "alternate-exchange", "rehop.unrouted", "none"},
		{"PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'it's: received x but current is y' in vhost 'a': received the value '1' of type 'signedint' but current is the value '2' of type 'long'", "x-max-length", "1", "2"},
		{"PRECONDITION_FAILED - something new", "", "", ""},
	} {
		err := declareError("queue", "q", &amqp.Error{Code: 406, Reason: test.text, Server: true, Recover: true})
		var d *DeclareError
		if !errors.As(err, &d) {
			t.Errorf("%s: got %T, want *DeclareError", test.text, err)
			continue
		}
		if d.Argument != test.argument || d.Want != test.want || d.Have != test.have {
			t.Errorf("%s:\ngot argument %q, want %q, have %q\nshould be %q, %q, %q", test.text, d.Argument, d.Want, d.Have, test.argument, test.want, test.have)
		}
		if d.Argument == "" && !strings.Contains(err.Error(), test.text) {
			t.Errorf("got %q, want the broker's words in it", err)
		}
		if d.Hint == "" || !strings.Contains(err.Error(), d.Hint) {
			t.Errorf("got %q, want a hint in it", err)
		}
	}
}

func TestDeclareError(t *testing.T) {
	for code, hint := range map[int]string{403: "permission", 404: "cannot be used now", 405: "exclusively", 406: "setting", 540: "log"} {
		err := fmt.Errorf("wrapped: %w", declareError("queue", "q", &amqp.Error{Code: code, Reason: "because", Server: true, Recover: true}))
		if !Permanent(err) || !strings.Contains(err.Error(), hint) || !strings.Contains(err.Error(), "because") || !strings.Contains(err.Error(), fmt.Sprint(code)) {
			t.Errorf("%d: got %q, permanent %v; want the code, the reason and %q", code, err, Permanent(err), hint)
		}
	}
	// The connection was lost while it was asked: that is not about the object.
	if err := declareError("queue", "q", amqp.ErrClosed); Permanent(err) {
		t.Errorf("got %v, which is permanent; want it not to be", err)
	}
	if err := declareError("queue", "q", nil); err != nil {
		t.Errorf("no error: got %v, want nil", err)
	}
}

// Only one of RabbitMQ's texts with code 404 means that a queue does not exist.
func TestMissing(t *testing.T) {
	for text, want := range map[string]bool{
		"NOT_FOUND - no queue 'q' in vhost '/'":                                                         true,
		"NOT_FOUND - home node 'rabbit@b' of durable queue 'q' in vhost '/' is down or inaccessible":    false,
		"NOT_FOUND - home node 'rabbit@b' of durable queue 'no queue 'q' in vhost '/' is down":          false,
		"NOT_FOUND - queue 'q' in vhost '/' process is stopped by supervisor":                           false,
		"NOT_FOUND - queue 'q' in vhost '/' has crashed and failed to restart":                          false,
		"NOT_FOUND - failed to perform operation on queue 'q' in vhost '/' due to timeout":              false,
		"NOT_FOUND - no exchange 'q' in vhost '/'":                                                      false,
		"PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'NOT_FOUND - no queue 'q' in vhost": false,
	} {
		code := 404
		if strings.HasPrefix(text, "PRECONDITION") {
			code = 406
		}
		d, ok := errors.AsType[*DeclareError](declareError("queue", "q", &amqp.Error{Code: code, Reason: text, Server: true, Recover: true}))
		if !ok || d.Missing() != want || strings.Contains(d.Hint, "create it first") != want {
			t.Errorf("%s: got %v, missing %v, want %v", text, d, ok && d.Missing(), want)
		}
	}
	bound := declareError("binding from x to", "q", &amqp.Error{Code: 404, Reason: "NOT_FOUND - no queue 'q' in vhost '/'", Server: true, Recover: true})
	if !strings.Contains(bound.Error(), "create the queue or exchange") {
		t.Errorf("a binding of a queue that was deleted: got %v, want that the queue has to be created", bound)
	}
	if d := (&DeclareError{Object: "exchange", Code: 404, Reason: "NOT_FOUND - no exchange 'x' in vhost '/'"}); !d.Missing() {
		t.Error("an exchange that does not exist: got false, want true")
	}
}

// What to do about an object that differs depends on what it is.
func TestDifferingObjects(t *testing.T) {
	for _, c := range []struct{ object, name, hint string }{
		{"exchange", "orders", "set ExistingExchange (existing-exchange: true in rehop.yaml) to use it unchanged"},
		{"queue", "orders", "set ExistingQueue (existing-queue: true in rehop.yaml) to use it unchanged, or run rehop topology migrate to change it"},
		{"queue", "rehop.step.10s", "Config.QueueType"},
	} {
		reason := fmt.Sprintf("PRECONDITION_FAILED - inequivalent arg 'a' for %s '%s' in vhost '/': received 'b' but current is none", c.object, c.name)
		got := declareError(c.object, c.name, &amqp.Error{Code: 406, Reason: reason, Server: true, Recover: true}).Error()
		if want := fmt.Sprintf("declare %s %q: it already exists with a = none, not b (406); ", c.object, c.name); !strings.HasPrefix(got, want) || !strings.Contains(got, c.hint) {
			t.Errorf("got %q, want %q and %q", got, want, c.hint)
		}
	}
}

func TestCulprit(t *testing.T) {
	for _, test := range []struct {
		text, exchange string
		size           int
	}{
		{"NOT_FOUND - no exchange 'x y' in vhost '/'", "x y", 0},
		{"ACCESS_REFUSED - cannot publish to internal exchange 'in' in vhost '/'", "in", 0},
		{"ACCESS_REFUSED - access to exchange 'a' in vhost '/' refused for user 'u'", "a", 0},
		{"PRECONDITION_FAILED - message size 200 is larger than configured max size 100", "", 100},
		{"PRECONDITION_FAILED - message size 200 larger than max size 100", "", 100},
		{"PRECONDITION_FAILED - message size 200 larger than configured max size 100", "", 100},
		{"INTERNAL_ERROR", "", 0},
		{"PRECONDITION_FAILED - message size 2 is larger than configured max size 99999999999999999999999", "", 0},
	} {
		exchange, size := culprit(&amqp.Error{Reason: test.text})
		if exchange != test.exchange || test.size != 0 && size != test.size {
			t.Errorf("%s: got %q and %d, want %q and %d", test.text, exchange, size, test.exchange, test.size)
		}
	}
}

// Whatever the broker writes, its words are kept, and nothing panics.
func FuzzDeclareError(f *testing.F) {
	f.Add(406, "inequivalent arg 'type' for exchange 'order' in vhost '/': received 'topic' but current is 'fanout'")
	f.Add(406, "inequivalent arg '' for : received  but current is ")
	f.Add(404, "")
	f.Fuzz(func(t *testing.T, code int, text string) {
		e := &amqp.Error{Code: code, Reason: text, Server: true, Recover: true}
		err := declareError("queue", "name", e)
		var d *DeclareError
		if !errors.As(err, &d) {
			t.Fatalf("got %T, want *DeclareError", err)
		}
		for _, part := range []string{d.Argument, d.Want, d.Have} {
			if !strings.Contains(text, part) {
				t.Errorf("got %q, which the broker did not say: %q", part, text)
			}
		}
		if d.Reason != text || !strings.Contains(err.Error(), "name") || d.Argument == "" && !strings.Contains(err.Error(), text) {
			t.Errorf("got %q, want the name and the broker's words %q", err, text)
		}
		culprit(e)
	})
}
