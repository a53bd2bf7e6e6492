package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/rabbit"
)

type publishing struct {
	*command
	message rehop.Message
	headers []string
	file    string
	lines   bool
	skip    int
	declare string
	keep    bool
	timeout time.Duration
}

func (c *command) publish() *cobra.Command {
	p := &publishing{command: c}
	cmd := &cobra.Command{
		Use:   "publish [body]",
		Short: "Publish messages and wait for the broker's confirms",
		Long: `Publish sends a message and waits until the broker has confirmed that it is in a queue. The body is
the argument, a file (--file), or the standard input.

With --lines it publishes many messages: each line of the file or of the standard input is a message
in JSON, with the members exchange, key, headers, body (text, or JSON that is sent unchanged) or
body_base64, id, content_type, content_encoding, transient, priority, expiration, timestamp,
correlation_id, reply_to, type, app_id and delay. Flags are the defaults of members that a line does
not have. The output of rehop tail --json can be published.

The exit code is 0 if all messages were confirmed, and 1 if any was not; then it prints which, and
why. With --lines it continues after a message that is unroutable or refused. If the broker is gone,
blocks publishers or does not answer, it stops, and prints the --skip with which to continue. At ^C it
finishes the lines that it is publishing, up to 256, so the number that it prints is exact. If it is
killed, any of the last 256 lines may be published. A line without an id gets a new one each time it
is published: set ids if consumers must recognize copies.`,
		Example: `  rehop publish --exchange order --key order.created '{"id": 1}'
  rehop publish --key order-summary --file order.json     # to a queue, by its name
  rehop publish --exchange order --lines < orders.jsonl`,
		Args: needs("[body]"),
		RunE: func(cmd *cobra.Command, args []string) error { return p.run(cmd.Context(), args) },
	}
	p.addFlags(cmd.Flags())
	return cmd
}

func (p *publishing) addFlags(flags *pflag.FlagSet) {
	m := &p.message
	flags.StringVarP(&m.Exchange, "exchange", "e", "", "exchange to publish to (default the default exchange, where the key is the name of a queue)")
	flags.StringVarP(&m.Key, "key", "k", "", "routing key")
	flags.StringArrayVarP(&p.headers, "header", "H", nil, "header, as name=text, name:=5, name:=true or name:=1.5; may be given more than once")
	flags.StringVar(&m.ID, "id", "", "id of the message (default a new one)")
	flags.StringVar(&m.ContentType, "content-type", "", "content type of the body")
	flags.StringVar(&m.ContentEncoding, "content-encoding", "", "content encoding of the body")
	flags.BoolVar(&m.Transient, "transient", false, "publish a message that need not survive a restart of the broker")
	flags.Uint8Var(&m.Priority, "priority", 0, "priority")
	flags.DurationVar(&m.Expiration, "expiration", 0, "how long the message may stay in a queue (default no limit)")
	flags.StringVar(&m.CorrelationID, "correlation-id", "", "correlation id")
	flags.StringVar(&m.ReplyTo, "reply-to", "", "queue for replies")
	flags.StringVar(&m.Type, "type", "", "type of the message")
	flags.StringVar(&m.AppID, "app-id", "", "id of the application")
	flags.StringVar(&m.OrderKey, "order-key", "", "key by which the message is handled in order; it is sent in the header order-key")
	flags.DurationVar(&m.Delay, "delay", 0, "delay the message on the broker for this long before it is routed; with --exchange this needs --declare")
	flags.StringVar(&p.declare, "declare", "", "declare the exchange first, of this type: topic, direct, fanout or headers")
	flags.BoolVar(&p.keep, "keep-unroutable", false, "keep an unroutable message in the queue rehop.unrouted; needs an exchange that rehop declares")
	flags.StringVarP(&p.file, "file", "f", "", "file with the body, or with the lines; - is the standard input")
	flags.BoolVar(&p.lines, "lines", false, "publish a message for each line of JSON")
	flags.IntVar(&p.skip, "skip", 0, "with --lines: skip this many lines at the beginning")
	flags.DurationVar(&p.timeout, "timeout", 30*time.Second, "how long to wait for the broker's confirm")
}

func (p *publishing) run(ctx context.Context, args []string) error {
	if err := p.check(args); err != nil {
		return err
	}
	in, err := p.source(ctx, args)
	if err != nil {
		return err
	}
	defer in.Close()
	config, err := p.config()
	if err != nil {
		return err
	}
	if p.lines {
		return p.publishLines(ctx, in, config)
	}
	if p.message.Body, err = io.ReadAll(in); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return usage("read the body: %w", err)
	}
	return p.publishOne(ctx, config)
}

func (p *publishing) check(args []string) error {
	switch {
	case len(args) > 0 && p.file != "":
		return usage("the body is given twice, as an argument and with --file")
	case len(args) > 0 && p.lines:
		return usage("--lines reads a file or the standard input; remove the argument %q", args[0])
	case p.message.ID != "" && p.lines:
		return usage("--id cannot be used with --lines: each line has its own id")
	case p.skip < 0:
		return usage("--skip %d must not be negative", p.skip)
	case p.skip > 0 && !p.lines:
		return usage("--skip needs --lines")
	case p.timeout <= 0:
		return usage("--timeout %v must be positive", p.timeout)
	case p.message.Delay < 0 || p.message.Expiration < 0:
		return usage("--delay and --expiration must not be negative")
	case p.declare != "" && p.message.Exchange == "":
		return usage("--declare needs --exchange")
	case p.message.Delay > 0 && p.message.Exchange != "" && p.declare == "":
		return usage("--delay with --exchange needs --declare: the exchange must keep messages that are unroutable when the delay is over")
	case !p.lines && p.message.Exchange == "" && p.message.Key == "":
		return usage("no destination: set --exchange, or --key to the name of a queue")
	}
	headers, err := headersOf(p.headers)
	p.message.Headers = headers
	return err
}

func (p *publishing) source(ctx context.Context, args []string) (io.ReadCloser, error) {
	switch {
	case len(args) > 0:
		return io.NopCloser(strings.NewReader(args[0])), nil
	case p.file == "" && p.Interactive:
		return nil, usage("there is no body: use an argument, --file, or the standard input")
	}
	in, _, err := p.openSource(ctx, p.file)
	if err != nil {
		return nil, usage("--file: %w", err)
	}
	return in, nil
}

func (p *publishing) config() (rehop.Config, error) {
	config, err := p.clientConfig()
	if err != nil {
		return config, err
	}
	config.KeepUnroutable = p.keep
	if p.declare != "" {
		switch p.declare {
		case "topic", "direct", "fanout", "headers":
			config.Exchanges = []rehop.Exchange{{Name: p.message.Exchange, Type: p.declare}}
		default:
			return config, usage("--declare %s: the types are topic, direct, fanout and headers", p.declare)
		}
	}
	return config, nil
}

// headersOf reads headers: name=text, and name:=value for numbers and booleans.
func headersOf(texts []string) (map[string]any, error) {
	headers := make(map[string]any, len(texts))
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		typed := strings.HasSuffix(name, ":")
		name = strings.TrimSuffix(name, ":")
		if !ok || name == "" {
			return nil, usage("--header %q must be like name=text, or name:=value for a number, true or false", text)
		}
		if strings.HasPrefix(name, "rehop-") {
			return nil, usage("--header %q: names that begin with rehop- are reserved", text)
		}
		if !typed {
			headers[name] = value
			continue
		}
		v, err := typedHeader(value)
		if err != nil {
			return nil, usage("--header %q: %w", text, err)
		}
		headers[name] = v
	}
	return headers, nil
}

func typedHeader(text string) (any, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f, nil
	}
	if text == "true" || text == "false" {
		return text == "true", nil
	}
	return nil, fmt.Errorf("%q is neither a number nor true or false; for text, write name=text", text)
}

// published is the outcome of a message in JSON output.
type published struct {
	Line    int    `json:"line,omitempty"`
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
}

func outcomeOf(err error) string {
	for _, o := range []struct {
		err  error
		name string
	}{
		{rehop.ErrUnroutable, "unroutable"}, {rehop.ErrRefused, "refused"}, {rehop.ErrUnknown, "unknown"}, {rehop.ErrBlocked, "blocked"},
		{rehop.ErrDisconnected, "disconnected"}, {rehop.ErrTooLarge, "too large"}, {rehop.ErrInvalid, "invalid"},
	} {
		if errors.Is(err, o.err) {
			return o.name
		}
	}
	if err != nil {
		return "failed"
	}
	return "confirmed"
}

func publishedOf(line int, id string, err error) published {
	done := published{Line: line, ID: id, Outcome: outcomeOf(err)}
	if err != nil {
		done.Error = err.Error()
	}
	return done
}

func (p *publishing) publishOne(ctx context.Context, config rehop.Config) error {
	client, err := p.connect(ctx, config)
	if err != nil {
		return err
	}
	m := p.message
	if m.ID == "" {
		m.ID = rehop.NewID()
	}
	m.Headers = maps.Clone(m.Headers)
	limited, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	err = explainPublish(client.Publish(limited, m), m.Exchange)
	if p.json {
		err = errors.Join(err, p.printLine(publishedOf(0, m.ID, err)))
	} else if err == nil {
		err = p.printf("confirmed %s\n", plain(m.ID))
	}
	return errors.Join(publishCode(err), p.close(client))
}

// explainPublish adds to the error of a message what to do about it on the command line.
func explainPublish(err error, exchange string) error {
	missing, ok := errors.AsType[*rabbit.NoExchangeError](err)
	switch {
	case ok:
		return fmt.Errorf("%w: there is no exchange %q; add it under exchanges in rehop.yaml, or declare it with --declare topic", rehop.ErrUnroutable, missing.Exchange)
	case errors.Is(err, rehop.ErrUnroutable) && exchange == "":
		return fmt.Errorf("%w; rehop queues lists the queues, and --exchange names an exchange", err)
	case errors.Is(err, rehop.ErrUnroutable):
		return fmt.Errorf("%w; rehop topology plan lists the bindings of rehop.yaml", err)
	}
	return err
}

func publishCode(err error) error {
	switch {
	case errors.Is(err, rehop.ErrDisconnected):
		return unreachable(err)
	case errors.Is(err, rehop.ErrInvalid), errors.Is(err, rehop.ErrTooLarge):
		return &exitError{exitUsage, err}
	}
	return err
}
