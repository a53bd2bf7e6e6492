package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
)

// standardStream is the name of the standard output and input.
const standardStream = "-"

func (c *command) brokerBackup() *cobra.Command {
	data := ""
	cmd := &cobra.Command{
		Use:   "backup file",
		Short: "Write a backup of a running broker to a file",
		Long: `Backup writes everything that an embedded broker keeps on disk to a file, as it was at one moment:
virtual hosts, users, permissions, policies, exchanges, queues, bindings, and messages with their delays.
All messages that were confirmed before the backup began are in it, except transient messages and those that were acked before.
The broker continues to work meanwhile. The file has the bodies of messages and the hashes of
passwords; only its owner can read it.

Backup needs the management API of the broker, and a user with the tag administrator. With --data it
reads the directory of a broker that does not run.

The file must not exist, and gets its name when it is complete. With - as its name, the backup goes to the
standard output, so that another program can compress or encrypt it:

  rehop broker backup - | gzip > orders.backup.gz
  gzip -dc orders.backup.gz | rehop broker restore - --data restored

The broker keeps the files that it has not sent yet. If the disk becomes full because of that, it gives up the
backup. Write the backup to another disk or machine.`,
		Args: needs("file"),
		RunE: func(cmd *cobra.Command, args []string) error { return c.backUp(cmd.Context(), args[0], data) },
	}
	cmd.Flags().StringVar(&data, "data", "", "directory of a broker that does not run (default the broker that runs)")
	return cmd
}

// backupView is a backup in JSON output.
type backupView struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

func (c *command) backUp(ctx context.Context, file, data string) error {
	if file == standardStream {
		if c.Width > 0 {
			return usage("a backup is not for a terminal: redirect the standard output, or name a file")
		}
		_, err := c.copyBackup(ctx, c.Out, data)
		return interruption(ctx, err)
	}
	var bytes int64
	err := c.writeNew("backup", file, func(w io.Writer) (err error) {
		bytes, err = c.copyBackup(ctx, w, data)
		return err
	})
	if err == nil {
		err = syncDirectory(filepath.Dir(file))
	}
	if err != nil {
		return interruption(ctx, err)
	}
	if c.json {
		return c.printJSON(backupView{file, bytes})
	}
	return c.printf("%s: %s\n", plain(file), size(bytes))
}

// copyBackup writes a backup, which is complete if there is no error, and returns its size.
func (c *command) copyBackup(ctx context.Context, w io.Writer, data string) (int64, error) {
	bar := c.progressOf("bytes written:")
	defer bar.end()
	count := &meter{passed: func(n int64) { bar.show(n, 0) }}
	w = io.MultiWriter(w, count)
	if data != "" {
		err := broker.BackupDir(ctx, data, w)
		return count.n, inDirectory(data, err)
	}
	a, err := c.openAdmin(ctx, queueLayouts{})
	if err != nil {
		return 0, err
	}
	defer a.Close()
	backup, err := a.Backup(ctx)
	if err != nil {
		return 0, c.explainBackup(err)
	}
	defer backup.Close()
	err = broker.CheckBackup(ctx, io.TeeReader(backup, w))
	return count.n, err
}

// explainBackup adds how to fix an error on the command line.
func (c *command) explainBackup(err error) error {
	if errors.Is(err, admin.ErrNoBackup) {
		return &exitError{exitUsage, err}
	}
	return c.explain(err)
}

// syncDirectory makes a new name in a directory durable. Windows does that itself.
func syncDirectory(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (c *command) brokerRestore() *cobra.Command {
	data := ""
	cmd := &cobra.Command{
		Use:   "restore file [directory]",
		Short: "Restore a backup to a new data directory",
		Long: `Restore writes a backup to a directory, which must be new or empty, and checks everything in it. Then start
the broker there, as with rehop up --data. With - as the name of the file, it reads the standard input.

A backup that is incomplete or damaged is refused, with exit code 3, and nothing is left in the directory.
If restore is killed, the broker does not start in the directory; run the command again.

The broker continues as after a crash at the moment of the backup. Messages that were acked since then
are delivered again, and all messages are marked as redelivered. Time since the backup counts toward
delays and TTLs.`,
		Args: needs("file", "[directory]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && data == "":
				return usage("which directory? name it behind the file, or with --data")
			case len(args) == 2 && data != "":
				return usage("two directories: %q and --data %q; name one", args[1], data)
			case len(args) == 2:
				data = args[1]
			}
			return c.restore(cmd.Context(), args[0], data)
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "directory to create, instead of the argument")
	return cmd
}

func (c *command) restore(ctx context.Context, file, data string) error {
	if file == standardStream && c.Interactive {
		return usage("there is nothing to restore: name a file, or use the standard input")
	}
	in, total, err := c.openSource(ctx, file)
	if err != nil {
		return usage("open the backup: %w", err)
	}
	defer in.Close()
	bar := c.progressOf("bytes restored:")
	defer bar.end()
	report, err := broker.RestoreDir(ctx, data, io.TeeReader(in, &meter{passed: func(n int64) { bar.show(n, total) }}))
	bar.end()
	switch {
	case errors.Is(err, broker.ErrBadBackup):
		return found("%w", fmt.Errorf("%s: %w", file, err))
	case err != nil:
		return interruption(ctx, inDirectory(data, err))
	}
	return c.printDirectoryIn(directoryOf(data, report), "taken from a running broker")
}
