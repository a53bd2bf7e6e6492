// Command rehop is reliable messaging for RabbitMQ without a line of Go: it consumes, calls an HTTP endpoint or a command, retries by
// schedule, keeps what fails, and looks after it all.
package main

import (
	"context"
	"os"

	"github.com/rehop/rehop/cmd/rehop/internal/cli"
	"github.com/rehop/rehop/cmd/rehop/internal/guard"
	"github.com/rehop/rehop/cmd/rehop/internal/reap"
)

func main() {
	if code, first := reap.First(); first {
		os.Exit(code)
	}
	if guard.Asked() {
		guard.Run()
		return
	}
	s := cli.Terminal()
	s.Guarded = true
	os.Exit(cli.Run(context.Background(), os.Args[1:], s))
}
