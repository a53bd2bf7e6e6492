package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

func addYes(flags *pflag.FlagSet, yes *bool) {
	flags.BoolVarP(yes, "yes", "y", false, "do it without asking")
}

// agree returns nil when it was agreed to something that cannot be undone: beforehand with --yes, or by a person who is asked.
func (c *command) agree(ctx context.Context, yes bool, what string) error {
	if yes {
		return nil
	}
	if !c.Interactive {
		return usage("%s: the standard input is not a terminal, so rehop cannot ask; use --yes to confirm", what)
	}
	fmt.Fprintf(c.Err, "%s? [y/N] ", plain(what))
	answer := make(chan string, 1)
	go func() { // a read of a terminal cannot be ended; it ends with the process
		line, _ := bufio.NewReader(c.In).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case said := <-answer:
		if said == "y" || said == "yes" {
			return nil
		}
		return fmt.Errorf("%s: not confirmed; nothing was changed", what)
	case <-ctx.Done():
		return ctx.Err()
	}
}
