package node

import (
	"fmt"

	"github.com/rehop/rehop/internal/wire"
)

// exception ends a channel, or the whole connection, for a reason that the client is told.
type exception struct {
	code   uint16
	text   string
	method wire.MethodID // at fault; 0: none
}

func (e *exception) Error() string { return wire.ReplyText(e.code, e.text) }

// refuse returns an exception with RabbitMQ's words.
func refuse(code uint16, format string, args ...any) error {
	return &exception{code: code, text: fmt.Sprintf(format, args...)}
}

// A resource is named in reply texts as RabbitMQ does.
func resource(kind, name, vhost string) string {
	return fmt.Sprintf("%s '%s' in vhost '%s'", kind, name, vhost)
}
