package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
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
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return c.printf("%s\n", harmless(text))
}

// printLine prints a value for programs on one line, for those of which there are many.
func (c *command) printLine(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return c.printf("%s\n", harmless(text))
}

// harmless is JSON that says the same without what a terminal would obey. JSON itself escapes only a part of that; outside of its texts there is none.
func harmless(text []byte) []byte {
	if !bytes.ContainsFunc(text, obeyed) {
		return text
	}
	var out bytes.Buffer
	for _, r := range string(text) {
		if obeyed(r) {
			fmt.Fprintf(&out, "\\u%04x", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes()
}

// obeyed reports whether a terminal may take a character as an order, to move the cursor or to turn the direction of a text.
func obeyed(r rune) bool {
	return r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x200e && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// notice tells a person what is not a command's result.
func (c *command) notice(format string, args ...any) {
	fmt.Fprintln(c.Err, "rehop: "+plain(redacted(fmt.Sprintf(format, args...))))
}

// login is user and password in a URL. A password with an @ in it is written so by mistake, and is one all the same.
var login = regexp.MustCompile(`://[^\s"/?#@]*:[^\s"]*@`)

// redacted is a text without passwords: what somebody has typed in a wrong place is quoted in errors.
func redacted(text string) string { return login.ReplaceAllString(text, "://***@") }

// printTable prints rows below a heading. What others have written is made harmless.
func (c *command) printTable(heading []string, rows [][]string) error {
	return c.printTableWith(heading, rows, nil)
}

// printTableWith prints a table in which each row is followed by a line below it.
func (c *command) printTableWith(heading []string, rows [][]string, below func(row int) string) error {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{heading}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = plain(cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	row := -1 // the heading
	for line := range strings.Lines(text.String()) {
		if err := c.printf("%s\n", strings.TrimRight(line, " \n")); err != nil {
			return err
		}
		if below != nil && row >= 0 {
			if err := c.printf("%s\n", below(row)); err != nil {
				return err
			}
		}
		row++
	}
	return nil
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
