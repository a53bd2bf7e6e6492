package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// localSchema is the name of the schema to which the first line of an example refers.
const localSchema = "rehop.schema.json"

func (c *command) initialize() *cobra.Command {
	return &cobra.Command{
		Use:   "init [rehop.yaml]",
		Short: "Write a rehop.yaml with comments, to begin with",
		Long: `Init writes a rehop.yaml with one flow and comments. rehop up runs it unchanged. It never replaces a file: remove an old one first.

In the same directory, init writes ` + localSchema + `, a JSON Schema with which editors complete and check the file (those that use yaml-language-server find it by the first
line). rehop schema prints the same; after an update of rehop, run rehop schema > ` + localSchema + `.`,
		Example: `  rehop init
  rehop up`,
		Args: needs("[file]"),
		RunE: func(_ *cobra.Command, args []string) error { return c.writeExample(fileOf(args)) },
	}
}

func (c *command) writeExample(path string) error {
	schema := filepath.Join(filepath.Dir(path), localSchema)
	// An older schema is replaced: nobody writes it by hand.
	if old, err := os.ReadFile(schema); err == nil && !bytes.Contains(old, []byte(`"title": "rehop.yaml"`)) {
		return usage("%s exists, and is not a schema of rehop; move it away first", schema)
	}
	if err := createFile(path, config.Example()); err != nil {
		return err
	}
	if err := os.WriteFile(schema, config.Schema(), 0o644); err != nil {
		return err
	}
	next := "rehop up"
	if path != localFile {
		next += " " + shellQuoted(path) // without it, up reads the file of the usual name
	}
	return c.printf("wrote %s and %s\nnext: %s\n", plain(path), plain(schema), plain(next))
}

// shellQuoted is a word for a shell: unchanged if it has nothing that a shell interprets.
func shellQuoted(word string) string {
	if regexp.MustCompile(`^[\w./@%+=:-]+$`).MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// createFile writes a file that must not exist.
func createFile(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usage("%s exists, and init does not replace files; remove it, or name another one", path)
	}
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}

func (c *command) schema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of rehop.yaml",
		Long: `Schema prints the JSON Schema of rehop.yaml, with which editors complete and check the file. rehop init writes it, too. For editors that use
yaml-language-server, the first line of rehop.yaml names it:

    # yaml-language-server: $schema=` + localSchema,
		Example: `  rehop schema > ` + localSchema,
		Args:    none,
		RunE:    func(*cobra.Command, []string) error { return c.printf("%s", config.Schema()) },
	}
}
