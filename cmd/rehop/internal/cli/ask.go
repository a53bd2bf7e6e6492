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

// agree returns nil if the user agrees to something that cannot be undone, with --yes or when asked.
func (c *command) agree(ctx context.Context, yes bool, what string) error {
	if yes {
		return nil
	}
	if !c.Interactive {
		return usage("%s: the standard input is not a terminal, so rehop cannot ask; use --yes to confirm", what)
	}
	fmt.Fprintf(c.Err, "%s? [y/N] ", plain(what))
	answer := make(chan string, 1)
	go func() { // a read from a terminal cannot be canceled; it ends with the process
		line, _ := bufio.NewReader(c.In).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
		return fmt.Errorf("%s: not confirmed; nothing was changed", what)
	case <-ctx.Done():
		return ctx.Err()
	}
}
