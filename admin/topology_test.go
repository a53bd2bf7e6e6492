package admin

import (
	"testing"

	"github.com/rehop/rehop/internal/rabbit"
)

func TestReadRefusal(t *testing.T) {
	t.Parallel()
	const head = "PRECONDITION_FAILED - inequivalent arg '%' for queue 'a b' in vhost '/': "
	for _, c := range []struct {
		name, argument, reason string
		code                   int
		have                   any
		ok                     bool
	}{
		{"number", "x-message-ttl", head + "received the value '5000' of type 'long' but current is the value '6000' of type 'signedint'", 406, int64(6000), true},
		{"number as text", "x-message-ttl", head + "received the value '5000' of type 'long' but current is the value '6000' of type 'longstr'", 406, "6000", true},
		{"text", "x-dead-letter-exchange", head + "received none but current is the value 'dlx' of type 'longstr'", 406, "dlx", true},
		{"text with quotes", "x-dead-letter-exchange", head + "received none but current is the value 'a'b' of type 'longstr'", 406, "a'b", true},
		{"nothing", "x-max-length", head + "received the value '5' of type 'long' but current is none", 406, nil, true},
		{"flag", "durable", head + "received 'true' but current is 'false'", 406, false, true},
		{"flag as argument", "x-single-active-consumer", head + "received none but current is the value 'true' of type 'bool'", 406, true, true},
		{"type", "type", head + "received 'topic' but current is 'direct'", 406, "direct", true},
		{"invalid argument", "", "PRECONDITION_FAILED - invalid arg 'x-overflow' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue", 406, nil, false},
		{"locked", "", "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'", 405, nil, false},
	} {
		got, ok := readRefusal(&rabbit.DeclareError{Code: c.code, Argument: c.argument, Reason: c.reason})
		if ok != c.ok || got.have != c.have || got.argument != c.argument {
			t.Errorf("%s: got %+v, %v, want %q = %v, %v", c.name, got, ok, c.argument, c.have, c.ok)
		}
	}
}
