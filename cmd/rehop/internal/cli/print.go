package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

func none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("%s takes no arguments, but was given %q", cmd.CommandPath(), args[0])
	}
	return nil
}

func (c *command) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(c.Out, format, args...)
	return err
}

func (c *command) printJSON(value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return c.printf("%s\n", harmless(text))
}

func (c *command) printLine(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return c.printf("%s\n", harmless(text))
}

// harmless escapes control characters in JSON that a terminal would obey. encoding/json escapes only some of them.
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

// obeyed reports whether a character can control a terminal, for example move the cursor or change the direction of text.
func obeyed(r rune) bool {
	return r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x200e && r <= 0x200f || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// notice prints a message that is not the result of a command to the error stream.
func (c *command) notice(format string, args ...any) {
	fmt.Fprintln(c.Err, "rehop: "+plain(redacted(fmt.Sprintf(format, args...))))
}

// login matches user and password in a URL, also if the password has an unescaped @.
var login = regexp.MustCompile(`://[^\s"/?#@]*:[^\s"]*@`)

// exampleLogin is the login of URLs that errors give as an example.
const exampleLogin = "://user:password@"

// redacted is a text without passwords. Errors quote what was typed in the wrong place.
func redacted(text string) string {
	return login.ReplaceAllStringFunc(text, func(found string) string {
		if found == exampleLogin {
			return found
		}
		return "://***@"
	})
}

func (c *command) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(c.Err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// plain is a text on one line, without control characters: bodies, headers and errors can contain anything.
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

// faint, bold and red format a text if colours can be used.
func (c *command) faint(text string) string { return c.coded("2", text) }
func (c *command) bold(text string) string  { return c.coded("1", text) }
func (c *command) red(text string) string   { return c.coded(red, text) }

func (c *command) coded(code, text string) string {
	if !c.coloured() {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
