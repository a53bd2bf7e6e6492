package config

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/target"
)

// Target is where messages go. Exactly one of its fields is set.
type Target struct {
	HTTP    *HTTP
	Command *Command
	Forward *Forward
}

// HTTP is an endpoint; see target.HTTP.
type HTTP struct {
	URL           string
	Header        http.Header
	HeaderPrefix  string
	BodyOnly      bool
	Secrets       []string
	Timeout       time.Duration
	RetryAll      bool
	MaxRetryAfter time.Duration
}

// Command is a program; see target.Command.
type Command struct {
	Path     string
	Args     []string
	Env      []string
	Dir      string
	Timeout  time.Duration
	Grace    time.Duration
	Outcomes map[int]target.Outcome
}

// Forward is an exchange; see target.Forward.
type Forward struct {
	Exchange string
	Key      string
	Timeout  time.Duration
	MaxHops  int
}

// Handler is the endpoint as a handler.
func (h HTTP) Handler() *target.HTTP {
	handler := &target.HTTP{URL: h.URL, Header: h.Header, HeaderPrefix: h.HeaderPrefix, BodyOnly: h.BodyOnly, Timeout: h.Timeout,
		RetryAll: h.RetryAll, MaxRetryAfter: h.MaxRetryAfter}
	for _, s := range h.Secrets {
		handler.Secrets = append(handler.Secrets, target.Secret(s))
	}
	return handler
}

// Handler is the program as a handler.
func (c Command) Handler() *target.Command {
	return &target.Command{Path: c.Path, Args: c.Args, Env: c.Env, Dir: c.Dir, Timeout: c.Timeout, Grace: c.Grace, Outcomes: c.Outcomes}
}

// Handler is the exchange as a handler.
func (f Forward) Handler(client target.Publisher) *target.Forward {
	return &target.Forward{Client: client, Exchange: f.Exchange, Key: f.Key, Timeout: f.Timeout, MaxHops: f.MaxHops}
}

// String says where messages go, without secrets.
func (t Target) String() string {
	switch {
	case t.HTTP != nil:
		return t.HTTP.Handler().String()
	case t.Command != nil:
		return t.Command.Handler().String()
	case t.Forward != nil:
		return t.Forward.Handler(nil).String()
	}
	return "nowhere"
}

// timeout is how long the target may take by itself.
func (t Target) timeout() *time.Duration {
	switch {
	case t.HTTP != nil:
		return &t.HTTP.Timeout
	case t.Command != nil:
		return &t.Command.Timeout
	case t.Forward != nil:
		return &t.Forward.Timeout
	}
	return nil
}

func (r *reader) target(n *yaml.Node, of string, t *Target) {
	r.mapping(n, "target of "+of, keys{
		"http":    func(n *yaml.Node) { t.HTTP = r.http(n, of) },
		"command": func(n *yaml.Node) { t.Command = r.command(n, of) },
		"forward": func(n *yaml.Node) { t.Forward = r.forward(n, of) },
	})
	if n := aliased(n); n.Kind == yaml.MappingNode && len(n.Content) != 2 {
		r.fault(n, "target of %s must have one of http, command and forward, and has %d", of, len(n.Content)/2)
	}
}

func (r *reader) http(n *yaml.Node, of string) *HTTP {
	h := &HTTP{}
	what := "http of " + of
	if n.Kind == yaml.ScalarNode {
		r.text(&h.URL)(n)
		if err := h.Handler().Validate(); err != nil && h.URL != "" {
			r.blame(places{what: what, self: n}, err, map[string]string{"URL": "url"})
		}
		return h
	}
	before := len(r.faults)
	at := r.mapping(n, what, keys{
		"url": r.text(&h.URL),
		"headers": r.values("headers", func(name, value string) {
			if h.Header == nil {
				h.Header = make(http.Header)
			}
			h.Header[name] = []string{value}
		}),
		"header-prefix": r.text(&h.HeaderPrefix), "body-only": r.whether(&h.BodyOnly), "secrets": r.texts(&h.Secrets),
		"timeout": r.period(&h.Timeout), "retry-all": r.whether(&h.RetryAll), "max-retry-after": r.period(&h.MaxRetryAfter),
	})
	if len(r.faults) > before {
		return h // what could not be read would be found missing
	}
	if err := h.Handler().Validate(); err != nil {
		r.blame(at, err, map[string]string{"URL": "url", "Header": "headers"})
	}
	return h
}

func (r *reader) command(n *yaml.Node, of string) *Command {
	c := &Command{}
	var run []string
	what := "command of " + of
	read := r.texts(&run)
	if n.Kind != yaml.MappingNode {
		read(n)
		n = &yaml.Node{Kind: yaml.MappingNode, Line: n.Line}
	} else {
		n = aliased(n)
	}
	before := len(r.faults)
	var args []string
	at := r.mapping(n, what, keys{
		"run": read, "args": r.texts(&args), "dir": r.text(&c.Dir), "timeout": r.period(&c.Timeout), "grace": r.period(&c.Grace),
		"env":        r.values("env", func(name, value string) { c.Env = append(c.Env, name+"="+value) }),
		"exit-codes": func(n *yaml.Node) { r.exitCodes(n, c) },
	})
	if len(run) > 0 {
		c.Path, c.Args = run[0], append(run[1:], args...)
	}
	if len(r.faults) > before {
		return c
	}
	if err := c.Handler().Validate(); err != nil {
		r.blame(at, err, map[string]string{"Path": "run", "Outcomes": "exit-codes"})
	}
	return c
}

func (r *reader) exitCodes(n *yaml.Node, c *Command) {
	c.Outcomes = make(map[int]target.Outcome)
	r.named(n, "exit-codes", func(name string, key, value *yaml.Node) {
		code, err := strconv.Atoi(name)
		if err != nil || code < 0 || code > 255 {
			r.fault(key, "%q must be an exit code, from 0 to 255", name)
			return
		}
		var outcome target.Outcome
		choice(r, &outcome, target.Outcomes()...)(value)
		if outcome != "" {
			c.Outcomes[code] = outcome
		}
	})
}

// nobody publishes nothing: it stands for the client while a file is looked at.
type nobody struct{}

func (nobody) Publish(context.Context, rehop.Message) error { return fmt.Errorf("there is no client") }

func (r *reader) forward(n *yaml.Node, of string) *Forward {
	f := &Forward{}
	before := len(r.faults)
	at := r.mapping(n, "forward of "+of, keys{
		"exchange": r.text(&f.Exchange), "key": r.text(&f.Key), "timeout": r.period(&f.Timeout), "max-hops": r.count(&f.MaxHops),
	})
	if len(r.faults) > before {
		return f
	}
	if err := f.Handler(nobody{}).Validate(); err != nil {
		r.blame(at, err, nil)
	}
	return f
}
