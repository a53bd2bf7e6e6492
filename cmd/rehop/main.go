// Command rehop is reliable messaging for RabbitMQ without a line of Go: it consumes, calls an HTTP endpoint or a command, retries by
// schedule, keeps what fails, and looks after it all.
package main

import (
	"context"
	"os"

	"github.com/rehop/rehop/cmd/rehop/internal/cli"
)

func main() {
	os.Exit(cli.Run(context.Background(), os.Args[1:], cli.Terminal()))
}
