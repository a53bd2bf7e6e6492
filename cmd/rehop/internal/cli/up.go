package cli

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
)

type upFlags struct {
	serviceFlags
	memory           bool
	data             string
	amqp, management string
	rabbitmq         string
}

func (c *command) up() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use: "up [rehop.yaml]", SuggestFor: []string{"start", "serve", "server"},
		Short: "Run a broker and flows in one process",
		Long: `Up runs the embedded broker, its management API, and the flows of a file, by default rehop.yaml in this directory if it exists.
If the file, --broker or $REHOP_BROKER names a broker, the flows run there and the embedded broker is not started; several copies
then share the work.

` + signalsHelp,
		Args:        needs("[file]"),
		Annotations: map[string]string{reloads: "the file"},
		RunE:        func(cmd *cobra.Command, args []string) error { return c.runUp(cmd.Context(), &f, args) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.memory, "memory", false, "keep the messages of the broker in memory only")
	flags.StringVar(&f.data, "data", "", "directory of the broker (default data of the file, else "+localData+")")
	flags.StringVar(&f.amqp, "listen-amqp", "", `address of the broker, "none" for none (default listen.amqp of the file, else `+localAMQP+`)`)
	flags.StringVar(&f.management, "listen-management", "", `address of its management API, "none" for none (default listen.management of the file, else `+localManagement+`)`)
	flags.StringVar(&f.rabbitmq, "rabbitmq", "", "release of RabbitMQ whose rules the broker follows: 3.10, 3.13, 4.0 or 4.3 (default rabbitmq of the file, else "+broker.DefaultCompat.String()+")")
	f.add(flags)
	return cmd
}

func (c *command) runUp(ctx context.Context, f *upFlags, args []string) error {
	if f.memory && f.data != "" {
		return usage("--memory and --data exclude each other")
	}
	var release broker.Compat
	if f.rabbitmq != "" {
		var err error
		if release, err = broker.ParseCompat(f.rabbitmq); err != nil {
			return usage("--rabbitmq: %w", err)
		}
	}
	load := func() (*config.File, error) { return config.None(), nil }
	first, err := config.None(), error(nil)
	path := fileOf(args)
	if _, absent := os.Stat(path); len(args) > 0 || !errors.Is(absent, fs.ErrNotExist) {
		load = func() (*config.File, error) { return config.Load(path) }
		if first, err = c.loadFile(path); err != nil {
			return err
		}
	}
	s, stop, err := c.service(&f.serviceFlags, load, first)
	if err != nil {
		return err
	}
	defer stop()
	amqp := listenAt(f.amqp, first.Listen.AMQP, localAMQP)
	if c.namedBroker() == "" && len(first.Broker) == 0 {
		s.Embedded = &serve.Embedded{AMQP: amqp, Management: listenAt(f.management, first.Listen.Management, localManagement),
			Users: first.Users, RabbitMQ: cmp.Or(release, first.RabbitMQ), MaxBody: first.MaxBody}
		if !f.memory {
			s.Embedded.Data = cmp.Or(f.data, first.Data, localData)
		}
		if first.Data != "" && !sameDirectory(first.Data, s.Embedded.Data) {
			s.Logger.Warn("data in the file has no effect: --data or --memory has precedence", "data", first.Data, "used", s.Embedded.Data)
		}
	} else if f.memory || f.data != "" || f.amqp != "" || f.management != "" || f.rabbitmq != "" {
		const what = "--memory, --data, --rabbitmq, --listen-amqp and --listen-management are for the embedded broker, which is not started because another broker is named"
		if c.reach.broker != "" {
			return usage(what)
		}
		// Service units and container images always have them in their command lines.
		s.Logger.Info("flags have no effect: " + what)
	}
	if s.Embedded == nil {
		at, err := c.placesOf(first)
		if err != nil {
			return err
		}
		if err := refuseItself(ctx, at.broker, amqp); err != nil {
			return err
		}
		s.Logger.Info("using broker " + at.broker.String() + "; the embedded broker is not started")
		warnOfData(s.Logger, cmp.Or(f.data, first.Data, localData))
	}
	return runService(ctx, s)
}

// warnOfData warns that the messages of an embedded broker which ran before stay where they are.
func warnOfData(log *slog.Logger, dir string) {
	if logs, err := filepath.Glob(filepath.Join(dir, "*.log")); err == nil && len(logs) > 0 {
		log.Warn("messages of the embedded broker stay in its data directory, and are not used: rehop move takes them to another broker", "data", dir)
	}
}

// sameDirectory reports whether two paths are those of one directory: systemd names that of a service by a link.
func sameDirectory(a, b string) bool {
	if a == b {
		return true
	}
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}
