package admin

import (
	"encoding/json"
	"testing"
)

// TestBytesAreOfCountedMessages has answers of brokers whose statistics are not all of one moment: how many messages the bytes are of is
// not messages_ready.
func TestBytesAreOfCountedMessages(t *testing.T) {
	for name, c := range map[string]struct {
		answer          string
		bytes, messages int
	}{
		"nothing yet":                     {`{}`, 0, 0},
		"3.x, bytes of an earlier moment": {`{"messages_ready":5,"messages_unacknowledged":0,"message_bytes":2,"messages_persistent":2,"backing_queue_status":{"len":2}}`, 2, 2},
		"3.x, transient messages":         {`{"messages_ready":5,"messages_unacknowledged":0,"message_bytes":5,"messages_persistent":0,"backing_queue_status":{"len":5}}`, 5, 5},
		"4.x, bytes of an earlier moment": {`{"messages_ready":5,"messages_unacknowledged":0,"message_bytes":0,"messages_persistent":0}`, 0, 0},
		"4.x, all are counted":            {`{"messages_ready":5,"messages_unacknowledged":0,"message_bytes":50,"messages_persistent":5}`, 50, 5},
		"4.x, consumers hold some":        {`{"messages_ready":5,"messages_unacknowledged":3,"message_bytes":50,"messages_persistent":6}`, 50, 3},
		"4.x, consumers hold more":        {`{"messages_ready":5,"messages_unacknowledged":9,"message_bytes":50,"messages_persistent":6}`, 50, 0},
		"the embedded broker":             {`{"messages_ready":5,"messages_unacknowledged":1,"message_bytes":6}`, 6, 5},
	} {
		t.Run(name, func(t *testing.T) {
			var f figures
			if err := json.Unmarshal([]byte(c.answer), &f); err != nil {
				t.Fatal(err)
			}
			if bytes, messages := f.bytes(); bytes != c.bytes || messages != c.messages {
				t.Errorf("got %d bytes of %d messages, want %d of %d", bytes, messages, c.bytes, c.messages)
			}
		})
	}
}
