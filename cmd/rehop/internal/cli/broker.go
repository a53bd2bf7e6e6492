package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/broker"
)

func (c *command) broker() *cobra.Command {
	return group("broker", "Back up, restore, check, compact and repair the data of an embedded broker",
		`These commands are for the directory in which an embedded broker (rehop up) keeps its messages. Backup
is for a running broker. For the other commands the broker must not be running: one process at a time
can use the directory.`,
		c.brokerBackup(), c.brokerRestore(), c.brokerCheck(), c.brokerCompact(), c.brokerRepair())
}

// directory is a report in JSON output.
type directory struct {
	Directory   string   `json:"directory"`
	Segments    int      `json:"segments"`
	Messages    int      `json:"messages"`
	Definitions int      `json:"definitions"`
	Bytes       int64    `json:"bytes"`
	Dead        int64    `json:"dead_bytes"`
	Torn        int64    `json:"torn_bytes"`
	Clean       bool     `json:"closed_in_order"`
	Damage      []string `json:"damage"`
	SetAside    []string `json:"set_aside"`
	Recovered   []queued `json:"recovered"`
}

// queued is the messages in a queue in JSON output.
type queued struct {
	Vhost    string `json:"vhost"`
	Queue    string `json:"queue"`
	Messages int    `json:"messages"`
}

func directoryOf(dir string, r broker.Report) directory {
	d := directory{
		Directory: dir, Segments: r.Segments, Messages: r.Messages, Definitions: r.Definitions, Bytes: r.Bytes, Dead: r.Dead, Torn: r.Torn, Clean: r.Clean,
		Damage: []string{}, SetAside: append([]string{}, r.SetAside...), Recovered: []queued{},
	}
	for _, q := range r.Recovered {
		d.Recovered = append(d.Recovered, queued{q.Vhost, q.Name, q.Messages})
	}
	for _, damage := range r.Damage {
		d.Damage = append(d.Damage, damage.Error())
	}
	return d
}

func inDirectory(dir string, err error) error {
	switch {
	case errors.Is(err, broker.ErrHasData), errors.Is(err, broker.ErrRestoring):
		return usage("%s: %w", dir, err)
	case errors.Is(err, broker.ErrNoData):
		return usage("%s is not a data directory of a broker", dir)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return usage("read the data directory: %w", err)
	}
	return err
}

func (c *command) printDirectory(d directory) error {
	return c.printDirectoryIn(d, "not closed cleanly; the next start recovers it")
}

// printDirectoryIn is printDirectory with what it means that the directory was not closed cleanly.
func (c *command) printDirectoryIn(d directory, unclean string) error {
	if c.json {
		return c.printJSON(d)
	}
	state := "closed cleanly"
	if !d.Clean {
		state = unclean
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s and %s, %s in %s, of which %s can be freed; %s\n", plain(d.Directory), counted(d.Messages, "message"),
		counted(d.Definitions, "definition"), size(d.Bytes), counted(d.Segments, "file"), size(d.Dead), state)
	if d.Torn > 0 {
		fmt.Fprintf(&out, "a crash left %s unfinished at the end, which were never confirmed; the next start removes them\n", size(d.Torn))
	}
	for _, damage := range d.Damage {
		fmt.Fprintf(&out, "%s %s\n", c.red("damage:"), plain(damage))
	}
	for _, q := range d.Recovered {
		fmt.Fprintf(&out, "recovered: %s in queue %s of virtual host %s; the definition of their own queue is lost\n",
			counted(q.Messages, "message"), plain(q.Queue), plain(q.Vhost))
	}
	if len(d.SetAside) > 0 {
		fmt.Fprintf(&out, "set aside: %s\n", plain(strings.Join(d.SetAside, ", ")))
	}
	if len(d.Recovered) > 0 {
		c.notice("when the broker runs again, list and replay these messages with rehop failed ls <queue> and rehop failed replay <queue>")
	}
	return c.printf("%s", out.String())
}

func size(bytes int64) string {
	const unit = 1024
	if bytes < unit {
		return fmt.Sprintf("%d B", bytes)
	}
	value, prefixes := float64(bytes)/unit, "KMGTP"
	i := 0
	for value >= unit && i < len(prefixes)-1 {
		value, i = value/unit, i+1
	}
	return fmt.Sprintf("%.1f %ciB", value, prefixes[i])
}

// ofDirectory adds the flag --data, as backup and restore have it, to a command whose argument is a directory.
func ofDirectory(cmd *cobra.Command, run func(ctx context.Context, dir string) error) *cobra.Command {
	data := ""
	cmd.Flags().StringVar(&data, "data", "", "the directory, instead of the argument")
	cmd.Args = needs("[directory]")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir := cmp.Or(firstOf(args), data)
		switch {
		case dir == "":
			return usage("which directory? %s", cmd.UseLine())
		case len(args) > 0 && data != "":
			return usage("two directories: %q and --data %q; name one", args[0], data)
		}
		return run(cmd.Context(), dir)
	}
	return cmd
}

func (c *command) brokerCheck() *cobra.Command {
	return ofDirectory(&cobra.Command{
		Use:   "check directory",
		Short: "Read everything in a data directory and compare it with its checksums",
		Long: `Check reads everything in the directory and compares it with its checksums. It changes nothing.
The exit code is 3 if something is damaged.`,
	}, c.checkDirectory)
}

func (c *command) checkDirectory(ctx context.Context, dir string) error {
	report, err := broker.CheckDir(ctx, dir)
	if err != nil {
		return interruption(ctx, inDirectory(dir, err))
	}
	if err := c.printDirectory(directoryOf(dir, report)); err != nil {
		return err
	}
	if n := len(report.Damage); n > 0 {
		return found("%s in %s: rehop broker repair keeps what is not damaged", counted(n, "damaged place"), dir)
	}
	return nil
}

func (c *command) brokerRepair() *cobra.Command {
	yes := false
	cmd := ofDirectory(&cobra.Command{
		Use:   "repair directory",
		Short: "Repair a damaged data directory",
		Long: `Repair keeps what is not damaged, and renames damaged files. Messages in damaged places are lost, and
some messages that were handled may come back. Messages whose queue is lost are in queues named
rehop.recovered.<number>, in the virtual host /; a queue that was deleted long ago can come back as one
of these. Use their names with rehop failed ls, replay, export and discard. A replay sends a message to
the queue that its headers name. If they name none, it publishes the message to its exchange with its
routing key, so other queues that are bound there receive it again.

Repair does nothing if nothing is damaged. Otherwise it asks first, or needs --yes. Make a copy of the
directory before. Once the repair has begun, an interruption does not stop it.`,
	}, func(ctx context.Context, dir string) error { return c.repair(ctx, dir, yes) })
	addYes(cmd.Flags(), &yes)
	return cmd
}

func (c *command) repair(ctx context.Context, dir string, yes bool) error {
	report, err := broker.CheckDir(ctx, dir)
	if err != nil {
		return interruption(ctx, inDirectory(dir, err))
	}
	if n := len(report.Damage); n > 0 {
		if err := c.agree(ctx, yes, fmt.Sprintf("repair %s and lose what is in %s", dir, counted(n, "damaged place"))); err != nil {
			return err
		}
		if report, err = broker.RepairDir(ctx, dir); err != nil {
			return interruption(ctx, err)
		}
	}
	return c.printDirectory(directoryOf(dir, report))
}

// compacted is the result of a compaction in JSON output.
type compacted struct {
	directory
	Before int64 `json:"bytes_before"`
}

func (c *command) brokerCompact() *cobra.Command {
	return ofDirectory(&cobra.Command{
		Use:   "compact directory",
		Short: "Free the space of settled messages",
		Long: `Compact writes the remaining messages to new files and removes the old ones. A running broker does
this automatically when there is more to free than to keep. In the meantime the directory needs space
for both. You can interrupt or kill it at any time: every message is still there, and you can run the
command again.`,
	}, c.compact)
}

func (c *command) compact(ctx context.Context, dir string) error {
	before, after, err := broker.CompactDir(ctx, dir)
	if err != nil {
		return interruption(ctx, inDirectory(dir, err))
	}
	if c.json {
		return c.printJSON(compacted{directoryOf(dir, after), before.Bytes})
	}
	if err := c.printf("%s before, %s now\n", size(before.Bytes), size(after.Bytes)); err != nil {
		return err
	}
	return c.printDirectory(directoryOf(dir, after))
}
