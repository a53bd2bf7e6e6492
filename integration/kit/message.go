package kit

import (
	"strconv"
	"testing"

	"github.com/rehop/rehop"
)

// Numbered are n messages for a queue whose ids and bodies are 0, 1, 2, …
func Numbered(queue string, n int) []rehop.Message {
	messages := make([]rehop.Message, n)
	for i := range messages {
		messages[i] = rehop.Message{ID: strconv.Itoa(i), Key: queue, Body: []byte(strconv.Itoa(i))}
	}
	return messages
}

// Publish publishes one message by itself, and several as a batch.
func Publish(t testing.TB, c *rehop.Client, messages ...rehop.Message) {
	t.Helper()
	var err error
	if len(messages) == 1 {
		err = c.Publish(Context(t), messages[0])
	} else {
		err = c.PublishBatch(Context(t), messages)
	}
	if err != nil {
		t.Fatalf("publish: got %v, want nil", err)
	}
}
