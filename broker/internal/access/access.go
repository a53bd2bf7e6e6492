// Package access gives the packages below broker the engine of a broker.Server, which its users do not see.
package access

import (
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/session"
)

// Start starts a *broker.Server unless it runs, and returns its engine. A server that it starts gets its config
// from configure, unless that is nil. Package broker sets Start, as package log does for log/slog: a method of
// Server would be there for everybody.
var Start func(server any, configure func(*node.Config)) (*session.Server, error)

// Provide sets Start.
func Provide(start func(server any, configure func(*node.Config)) (*session.Server, error)) struct{} {
	Start = start
	return struct{}{}
}
