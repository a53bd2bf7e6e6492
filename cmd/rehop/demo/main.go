// Command demo is rehop demo without the rest of the binary, so that a first try compiles little.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/rehop/rehop/cmd/rehop/internal/demo"
	"github.com/rehop/rehop/cmd/rehop/internal/tty"
)

func main() {
	var o demo.Options
	flag.DurationVar(&o.For, "for", 0, "how long orders arrive (default until you press q; 20s with -plain or without a terminal)")
	flag.BoolVar(&o.Plain, "plain", false, "print a line for each event instead of a full screen, and replay automatically")
	flag.Parse()
	if flag.NArg() > 0 || o.For < 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o.Out, o.Size = os.Stdout, tty.SizeOf(os.Stdout)
	_, noColor := os.LookupEnv("NO_COLOR")
	o.Plain = o.Plain || o.Size == nil || os.Getenv("TERM") == "dumb"
	o.Coloured = !noColor
	sums, err := demo.Show(ctx, os.Stdin, o)
	if len(sums.Queues) > 0 {
		fmt.Print(sums)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(demo.NextInClone)
}
