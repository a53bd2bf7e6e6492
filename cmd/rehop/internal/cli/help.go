package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is the longest line of help, unless a word is longer.
const helpWidth = 90

// fitHelp wraps the help of a command and its subcommands.
func fitHelp(cmd *cobra.Command) {
	cmd.Long = wrapped(cmd.Long, helpWidth)
	for _, below := range cmd.Commands() {
		fitHelp(below)
	}
}

func fitFlags(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpWidth)))
}

// wrapped wraps the paragraphs of a text at a width. Lines that begin with a space stay unchanged.
func wrapped(text string, width int) string {
	var out strings.Builder
	column := 0
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(line, " ") {
			if column > 0 {
				out.WriteString("\n")
			}
			out.WriteString(line + "\n")
			column = 0
			continue
		}
		for _, word := range words {
			size := len([]rune(word))
			switch {
			case column == 0:
			case column+1+size > width:
				out.WriteString("\n")
				column = 0
			default:
				out.WriteString(" ")
				column++
			}
			out.WriteString(word)
			column += size
		}
	}
	return strings.TrimRight(out.String(), "\n")
}
