package node

import (
	"context"
	"log/slog"
	"strings"
)

// AuditMessage is the message of all lines of the audit log. Programs find them by it, so it never changes.
const AuditMessage = "audit"

// Change is what a user has done, or was refused to do.
type Change struct {
	User string
	From Peer
	Via  string // the protocol: amqp or http
	What string
	// Result is ok, refused or failed.
	Result string
	// Details are further attributes, without secrets.
	Details []any
}

// Audit logs a change.
func (n *Node) Audit(level slog.Level, c Change) {
	user := strings.ToValidUTF8(c.User, "\uFFFD")
	n.Log.Log(context.Background(), level, AuditMessage, append([]any{"by", user, "from", c.From.String(), "via", c.Via, "change", c.What, "result", c.Result}, c.Details...)...)
}
