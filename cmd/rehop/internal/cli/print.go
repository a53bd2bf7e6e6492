package cli

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"
)

// none: a command takes no arguments.
func none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no arguments, and was given %q", cmd.CommandPath(), args[0])
	}
	return nil
}

func (c *command) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(c.Out, format, args...)
	return err
}

// printJSON prints a value for programs, on lines of its own.
func (c *command) printJSON(value any) error {
	encoder := json.NewEncoder(c.Out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// printLine prints a value for programs on one line, for those of which there are many.
func (c *command) printLine(value any) error { return json.NewEncoder(c.Out).Encode(value) }

// notice tells a person what is not a command's result.
func (c *command) notice(format string, args ...any) {
	fmt.Fprintln(c.Err, "rehop: "+plain(fmt.Sprintf(format, args...)))
}

// printTable prints rows below a heading. What others have written is made harmless.
func (c *command) printTable(heading []string, rows [][]string) error {
	w := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{heading}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = plain(cell)
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
	}
	return w.Flush()
}

// logger writes what no command can return to the error stream.
func (c *command) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// plain is a text on one line, without what a terminal would obey: bodies, headers and errors are written by anybody.
func plain(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\t':
			out.WriteByte(' ')
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			fmt.Fprintf(&out, "\\u%04x", r)
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// faint, bold and red are texts as a terminal shows them, where colours may be used.
func (c *command) faint(text string) string { return c.coded("2", text) }
func (c *command) bold(text string) string  { return c.coded("1", text) }
func (c *command) red(text string) string   { return c.coded("31", text) }

func (c *command) coded(code, text string) string {
	if !c.coloured() {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
