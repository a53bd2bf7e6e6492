package node

import (
	"fmt"

	"github.com/rehop/rehop/internal/wire"
)

// Exception closes a channel or the connection. The client receives the code and the text.
type Exception struct {
	Code   uint16
	Text   string
	Method wire.MethodID // that caused it; 0: none
}

func (e *Exception) Error() string { return wire.ReplyText(e.Code, e.Text) }

// Refuse returns an exception with RabbitMQ's words.
func Refuse(code uint16, format string, args ...any) error {
	return &Exception{Code: code, Text: fmt.Sprintf(format, args...)}
}

// Resource names a queue or an exchange in reply texts as RabbitMQ does.
func Resource(kind, name, vhost string) string {
	return fmt.Sprintf("%s '%s' in vhost '%s'", kind, name, vhost)
}
