package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/admin"
)

func (c *command) failedExport() *cobra.Command {
	var (
		d    *desk
		file string
	)
	cmd := &cobra.Command{
		Use:   "export queue",
		Short: "Write failed messages as JSON lines, and leave them in the failed queue",
		Long: `Export writes the messages of the failed queue of a queue as lines of JSON, oldest first, and leaves them there. Bodies are in
base64. rehop failed import reads the file.`,
		Args: func(cmd *cobra.Command, args []string) error { return d.origin.needs(cmd, args, "queue") },
		RunE: func(cmd *cobra.Command, args []string) error {
			s, filter, err := d.open(cmd.Context(), firstOf(args))
			if err != nil {
				return err
			}
			defer s.close()
			d.noteDelayed(cmd.Context(), s)
			if file == "" {
				lines := &harmlessLines{to: c.Out}
				_, err := s.export(cmd.Context(), lines, filter)
				return c.explainFailed(s, err)
			}
			n, err := d.exportTo(cmd.Context(), s, file, filter)
			if err != nil {
				return c.explainFailed(s, err)
			}
			return c.count("exported", n)
		},
	}
	d = c.newDesk(cmd)
	cmd.Flags().StringVarP(&file, "output", "o", "", "file to write, which must not exist (default the standard output)")
	return cmd
}

func (c *command) count(verb string, n int) error {
	if c.json {
		return c.printJSON(map[string]int{verb: n})
	}
	return c.printf("%s %d\n", verb, n)
}

// exportTo writes a complete file, or none.
func (d *desk) exportTo(ctx context.Context, s failedSource, file string, filter admin.Filter) (int, error) {
	n := 0
	err := d.writeNew("--output", file, func(w io.Writer) (err error) {
		bar := d.progressOf("exported")
		defer bar.end()
		lines := &lineCounter{to: w, counted: func(n int64) { bar.show(n, 0) }}
		n, err = s.export(ctx, lines, filter)
		return err
	})
	return n, err
}

// writeNew writes a file that must not exist. The file gets its name when it is complete. what is its name in errors.
func (c *command) writeNew(what, file string, write func(io.Writer) error) error {
	if _, err := os.Lstat(file); err == nil {
		return usage("%s: %s exists; choose another name, or remove it", what, file)
	}
	part, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".part-*")
	if err != nil {
		return usage("%s: %w", what, err)
	}
	out := bufio.NewWriter(part)
	err = write(out)
	if err == nil {
		err = out.Flush()
	}
	if err == nil {
		err = part.Sync()
	}
	err = errors.Join(err, part.Close())
	if err == nil {
		err = giveName(part.Name(), file)
	}
	if left := os.Remove(part.Name()); !errors.Is(left, fs.ErrNotExist) {
		err = errors.Join(err, left)
	}
	return err
}

// giveName gives a file its name. A link, unlike a rename, overwrites nothing, but not every file system has links.
func giveName(part, file string) error {
	err := os.Link(part, file)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Rename(part, file)
}

// harmlessLines passes lines of JSON on, without control characters.
type harmlessLines struct {
	to   io.Writer
	rest []byte // the beginning of an incomplete line
}

func (h *harmlessLines) Write(p []byte) (int, error) {
	h.rest = append(h.rest, p...)
	whole := bytes.LastIndexByte(h.rest, '\n') + 1
	if _, err := h.to.Write(harmless(h.rest[:whole])); err != nil {
		return 0, err
	}
	h.rest = append(h.rest[:0], h.rest[whole:]...)
	return len(p), nil
}

type lineCounter struct {
	to      io.Writer
	n       int64
	counted func(int64)
}

func (l *lineCounter) Write(p []byte) (int, error) {
	l.n += int64(bytes.Count(p, []byte("\n")))
	l.counted(l.n)
	return l.to.Write(p)
}

func (c *command) failedImport() *cobra.Command {
	var (
		chosen layoutChoice
		skip   int
		dryRun bool
	)
	cmd := &cobra.Command{
		Use:   "import [file]",
		Short: "Return exported messages to the failed queues that they came from",
		Long: `Import reads the output of rehop failed export, from a file or the standard input, and returns the
messages to the failed queues, or the error queues, that they came from. It stops at the first line that it cannot read
or that the broker does not accept, and prints the number of the line and the --skip that continues
after it. Correct such lines, and import them separately.

At ^C it finishes the messages that it is publishing, up to 64, so the number that it prints is
exact. If it is killed, up to 64 messages after the last known one may be there already, and a
second import makes copies of these, with the same ids.

--dry-run reports the first line that cannot be read or sent. It does not check whether the queues
exist and accept messages.`,
		Args: needs("[file]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if skip < 0 {
				return usage("--skip %d must not be negative", skip)
			}
			in, size, err := c.importFrom(cmd.Context(), firstOf(args))
			if err != nil {
				return err
			}
			defer in.Close()
			of, err := c.layoutsOf(chosen)
			if err != nil {
				return err
			}
			if dryRun {
				return c.previewImport(cmd.Context(), in, of, skip)
			}
			a, err := c.openAdmin(cmd.Context(), of)
			if err != nil {
				return err
			}
			defer a.Close()
			bar := c.progressOf("bytes read:")
			defer bar.end()
			lines, err := behind(io.TeeReader(in, &meter{passed: func(n int64) { bar.show(n, size) }}), skip)
			if err != nil {
				return interruption(cmd.Context(), err)
			}
			n, err := a.Import(cmd.Context(), lines)
			bar.end()
			c.whereImportEnded(skip, n, err)
			return errors.Join(c.explain(interruption(cmd.Context(), err)), c.count("imported", n))
		},
	}
	chosen.addFlags(cmd.Flags())
	cmd.Flags().IntVar(&skip, "skip", 0, "skip this many messages at the beginning")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only report how many messages there are and whether they can be read")
	return cmd
}

// whereImportEnded prints how to continue an import that was interrupted or has failed.
func (c *command) whereImportEnded(skip, done int, err error) {
	lines, partly := errors.AsType[*admin.ImportError](err)
	switch {
	case err == nil:
	case partly:
		numbers := make([]string, len(lines.Lines))
		for i, n := range lines.Lines {
			numbers[i] = strconv.Itoa(n)
		}
		where, tried := "line "+strings.Join(numbers, ", "), skip+lines.Tried
		if tried == 1 {
			c.notice("not imported: %s; --skip 1 continues after it", where)
			return
		}
		c.notice("not imported: %s; the others of the first %d messages are in their queues, and --skip %d continues after them", where, tried, tried)
	case skip+done > 0 || perhapsMore(err) != "":
		c.notice("%s from the first on in their queues%s; --skip %d continues after them", counted(skip+done, "message"), perhapsMore(err), skip+done)
	}
}

// perhapsMore adds that messages after the known ones may be in their queues too.
func perhapsMore(err error) string {
	if outcomeOf(err) == "failed" {
		return ""
	}
	return ", and perhaps some of the next 64"
}

// interruption replaces the error of a command that was interrupted.
func interruption(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// importFrom opens a file or the standard input. The size is 0 if it is not known.
func (c *command) importFrom(ctx context.Context, file string) (io.ReadCloser, int64, error) {
	if (file == "" || file == "-") && c.Interactive {
		return nil, 0, usage("there is nothing to import: name a file, or use the standard input")
	}
	in, size, err := c.openSource(ctx, file)
	if err != nil {
		return nil, 0, usage("import: %w", err)
	}
	return in, size, nil
}

// previewImport reads the messages that would be imported, and does not connect to the broker.
func (c *command) previewImport(ctx context.Context, in io.Reader, of queueLayouts, skip int) error {
	lines, err := behind(in, skip)
	if err != nil {
		return interruption(ctx, err)
	}
	n, err := admin.CheckImport(lines, admin.Config{Layout: of.usual, Layouts: of.byQueue})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return usage("%w", c.explain(err))
	case c.json:
		return c.printJSON(moved{Done: n, DryRun: true})
	}
	return c.printf("%s would be imported\n", counted(n, "message"))
}

// behind skips the first messages. Their lines are replaced by empty ones, so that errors have the line numbers of the file.
func behind(in io.Reader, skip int) (io.Reader, error) {
	lines := bufio.NewReader(in)
	const mark = "\ufeff" // some editors write a byte order mark at the beginning of a file
	if begin, err := lines.Peek(len(mark)); err == nil && string(begin) == mark {
		if _, err := lines.Discard(len(mark)); err != nil {
			return nil, fmt.Errorf("read the import: %w", err)
		}
	}
	head := 0 // lines
	for skipped := 0; skipped < skip; {
		blank, err := skipLine(lines)
		if errors.Is(err, io.EOF) {
			return nil, usage("--skip %d: there are no more than %s", skip, counted(skipped, "message"))
		}
		if err != nil {
			return nil, fmt.Errorf("read the import: %w", err)
		}
		head++
		if !blank {
			skipped++
		}
	}
	return io.MultiReader(strings.NewReader(strings.Repeat("\n", head)), lines), nil
}

// skipLine skips a line, and returns whether it was empty. The error is io.EOF at the end.
func skipLine(r *bufio.Reader) (blank bool, err error) {
	blank = true
	for {
		part, err := r.ReadSlice('\n')
		text := len(part)
		if err == nil {
			text--
		}
		blank = blank && text == 0
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && !blank:
			return false, nil
		}
		return blank, err
	}
}

// meter counts the bytes that io.TeeReader or io.MultiWriter hands to it.
type meter struct {
	n      int64
	passed func(int64)
}

func (m *meter) Write(p []byte) (int, error) {
	m.n += int64(len(p))
	m.passed(m.n)
	return len(p), nil
}
