// Package access gives the packages below broker the engine of a broker.Server, which users of broker cannot reach.
package access

import (
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/session"
)

// Start starts a *broker.Server unless it runs, and returns its engine. configure, unless it is nil, changes the config
// of a server that was not started before. Package broker sets Start, as package log does for log/slog: a method of
// Server would be visible to everybody.
var Start func(server any, configure func(*node.Config)) (*session.Server, error)

// Provide sets Start.
func Provide(start func(server any, configure func(*node.Config)) (*session.Server, error)) struct{} {
	Start = start
	return struct{}{}
}
