package session

import (
	"log/slog"

	"github.com/rehop/rehop/broker/internal/node"
)

// audit logs what a client has deleted or purged. What was refused is logged with the end of the channel, and what the HTTP
// API does is logged there.
func (ch *Channel) audit(what, name string, details ...any) {
	if ch.conn.own {
		return
	}
	ch.node.Audit(slog.LevelInfo, node.Change{User: ch.conn.User, From: ch.conn.peer, Via: "amqp", What: what, Result: "ok",
		Details: append([]any{"vhost", ch.conn.vhost.Name, "name", name}, details...)})
}
