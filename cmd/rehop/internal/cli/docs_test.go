package cli

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write the reference in docs/cli.md anew")

const (
	docsFile   = "../../../../docs/cli.md"
	docsMarker = "<!-- What follows is written by the commands themselves: go test ./internal/cli -run TestDocs -update, in cmd/rehop. -->\n"
)

// TestDocs compares docs/cli.md with the commands: it has all of them with all their flags.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	byHand, reference, ok := strings.Cut(string(text), docsMarker)
	if !ok {
		t.Fatalf("%s has no line %q", docsFile, docsMarker)
	}
	for _, code := range []int{exitDone, exitFailed, exitUsage, exitFound, exitUnreachable, exitInterrupted} {
		if !strings.Contains(byHand, fmt.Sprintf("\n| %d |", code)) {
			t.Errorf("docs/cli.md does not list the exit code %d", code)
		}
	}
	root := (&command{}).root()
	want := "\n" + referenceOf(root)
	if *update {
		if err := os.WriteFile(docsFile, []byte(byHand+docsMarker+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, expected := strings.Split(reference, "\n"), strings.Split(want, "\n")
	for i := range max(len(got), len(expected)) {
		if i >= len(got) || i >= len(expected) || got[i] != expected[i] {
			t.Fatalf("docs/cli.md does not say what the commands say; -update mends that. First difference in line %d of the reference: got %q, want %q",
				i+1, lineAt(got, i), lineAt(expected, i))
		}
	}
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "nothing"
}

// referenceOf is the part of docs/cli.md that is not written by hand.
func referenceOf(root *cobra.Command) string {
	var out strings.Builder
	out.WriteString("## Flags of all commands\n\n")
	writeFlags(&out, root.PersistentFlags())
	out.WriteString("\n## Commands\n")
	writeCommands(&out, root)
	return out.String()
}

func writeCommands(out *strings.Builder, parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		if cmd.Name() == "help" {
			continue
		}
		fmt.Fprintf(out, "\n### %s\n\n%s.\n", cmd.CommandPath(), cmd.Short)
		if !cmd.HasSubCommands() {
			fmt.Fprintf(out, "\n    %s\n", cmd.UseLine())
		}
		if cmd.Long != "" {
			fmt.Fprintf(out, "\n%s\n", cmd.Long)
		}
		if cmd.Example != "" {
			fmt.Fprintf(out, "\n```sh\n%s\n```\n", strings.TrimSpace(strings.ReplaceAll("\n"+cmd.Example, "\n  ", "\n")))
		}
		if own := cmd.LocalNonPersistentFlags(); own.HasAvailableFlags() {
			out.WriteString("\n")
			writeFlags(out, own)
		}
		writeCommands(out, cmd)
	}
}

func writeFlags(out *strings.Builder, flags *pflag.FlagSet) {
	out.WriteString("| flag | what it does |\n|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		kind, what := pflag.UnquoteUsage(f)
		if kind != "" {
			name += " " + kind
		}
		if plainDefault := f.DefValue; !strings.Contains(what, "(default ") && plainDefault != "" && plainDefault != "0" && plainDefault != "0s" &&
			plainDefault != "false" && plainDefault != "[]" {
			what += " (default " + plainDefault + ")"
		}
		fmt.Fprintf(out, "| `%s` | %s |\n", name, strings.ReplaceAll(what, "|", "\\|"))
	})
}

// What doctor finds in a database is in the table of its findings.
func TestDatabaseChecksAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range databaseChecks {
		if !strings.Contains(string(text), "`"+a.ID+"`") {
			t.Errorf("docs/operations.md does not have `%s`", a.ID)
		}
	}
}
