package admin

import (
	"context"
	"unicode/utf8"

	"github.com/rehop/rehop/internal/rabbit"
)

// keyKeeper sends messages to a queue by its name, with their own routing keys: consumers of other programs may decide by the key what to do.
//
// The broker routes a message also by the keys in its header BCC, and removes that. On the default exchange a key is the name of a queue, so the
// message must not have the name of another queue as its own key.
type keyKeeper struct {
	admin *Admin
	known map[string]bool // routing keys, with whether they are names of queues
}

// maxKeys is how many routing keys are remembered: messages can have any number of them.
const maxKeys = 4096

// to sends a message to a queue, with a routing key if that is possible.
func (k keyKeeper) to(ctx context.Context, queue, key string, p *rabbit.Publishing) rabbit.Item {
	if key == "" || key == queue || !utf8.ValidString(key) || k.isQueue(ctx, key) { // RabbitMQ ends the connection of whoever asks for a name that is not UTF-8
		return rabbit.Item{Key: queue, Message: p}
	}
	p.Headers[bcc] = []any{queue}
	return rabbit.Item{Key: key, Message: p}
}

const bcc = "BCC"

// isQueue reports whether there is a queue of this name, or whether that cannot be found out.
func (k keyKeeper) isQueue(ctx context.Context, name string) bool {
	if is, known := k.known[name]; known {
		return is
	}
	_, is, err := existing(k.admin.read.Inspect(ctx, name))
	if err != nil {
		return true
	}
	if len(k.known) >= maxKeys {
		clear(k.known)
	}
	k.known[name] = is
	return is
}

// queueOf is the queue that an item is for, in a message for users.
func queueOf(item rabbit.Item) string {
	if hidden, ok := item.Message.Headers[bcc].([]any); ok && len(hidden) == 1 {
		if queue, ok := hidden[0].(string); ok {
			return queue
		}
	}
	return item.Key
}
