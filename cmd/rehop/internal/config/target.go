package config

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/target"
)

// Target is where messages go. Exactly one of its fields is set. Command and Forward are complete except for Carry and Client.
type Target struct {
	HTTP    *HTTP
	Command *target.Command
	Forward *target.Forward
}

// HTTP is the settings of a target.HTTP, which itself cannot be compared after its first use.
type HTTP struct {
	URL           string
	Header        http.Header
	HeaderPrefix  string
	BodyOnly      bool
	Secrets       []target.Secret
	Timeout       time.Duration
	RetryAll      bool
	MaxRetryAfter time.Duration
	TLS           target.TLS
	RefusePrivate bool
}

// Handler returns a handler for the endpoint.
func (h HTTP) Handler() *target.HTTP {
	return &target.HTTP{URL: h.URL, Header: h.Header, HeaderPrefix: h.HeaderPrefix, BodyOnly: h.BodyOnly, Secrets: h.Secrets, Timeout: h.Timeout,
		RetryAll: h.RetryAll, MaxRetryAfter: h.MaxRetryAfter, TLS: h.TLS, RefusePrivate: h.RefusePrivate}
}

// String returns where messages go, without secrets.
func (t Target) String() string {
	switch {
	case t.HTTP != nil:
		return t.HTTP.Handler().String()
	case t.Command != nil:
		return t.Command.String()
	case t.Forward != nil:
		return t.Forward.String()
	}
	return "nowhere"
}

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
		r.fault(n, "target of %s must have exactly one of http, command and forward, and has %d", of, len(n.Content)/2)
	}
}

// short turns a value without keys into a mapping with one key, for targets that can be written in a short form.
func short(n *yaml.Node, key string) *yaml.Node {
	if n.Kind == yaml.MappingNode {
		return n
	}
	return &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: key, Line: n.Line}, n}}
}

func (r *reader) http(n *yaml.Node, of string) *HTTP {
	h, private := &HTTP{}, ""
	what := "http of " + of
	before := len(r.faults)
	at := r.mapping(short(n, "url"), what, keys{
		"url": r.text(&h.URL),
		"headers": r.values("headers", func(name, value string) {
			if h.Header == nil {
				h.Header = make(http.Header)
			}
			h.Header[name] = []string{value}
		}),
		"header-prefix": r.text(&h.HeaderPrefix), "body-only": r.whether(&h.BodyOnly), "secrets": texts(r, &h.Secrets),
		"timeout": r.period(&h.Timeout), "retry-all": r.whether(&h.RetryAll), "max-retry-after": r.period(&h.MaxRetryAfter),
		"tls": func(n *yaml.Node) {
			r.mapping(n, "tls of "+what, keys{"ca": r.text(&h.TLS.CA), "cert": r.text(&h.TLS.Cert), "key": r.text(&h.TLS.Key)})
		},
		"private": choice(r, &private, "allow", "refuse"),
	})
	h.RefusePrivate = private == "refuse"
	if len(r.faults) > before {
		return h // otherwise values that could not be read would be reported as missing
	}
	if err := h.Handler().Validate(); err != nil {
		r.blame(at, err, map[string]string{"URL": "url", "Header": "headers", "RefusePrivate": "private: refuse"})
	}
	return h
}

func (r *reader) command(n *yaml.Node, of string) *target.Command {
	c := &target.Command{}
	var run, args []string
	before := len(r.faults)
	at := r.mapping(short(n, "run"), "command of "+of, keys{
		"run": r.texts(&run), "args": r.texts(&args), "dir": r.text(&c.Dir), "timeout": r.period(&c.Timeout), "grace": r.period(&c.Grace),
		"env":        r.variables(c),
		"exit-codes": func(n *yaml.Node) { r.exitCodes(n, c) },
	})
	if len(run) > 0 {
		c.Path, c.Args = run[0], append(run[1:], args...)
	}
	if len(r.faults) > before {
		return c
	}
	if err := c.Validate(); err != nil {
		r.blame(at, err, map[string]string{"Path": "run", "Outcomes": "exit-codes", "Inherit": "env"})
		return c
	}
	if r.here {
		if err := missingProgram(c); err != nil {
			r.fault(at.at("run"), "command of %s: %v", of, err)
		}
	}
	return c
}

// variables reads a mapping of variables to set, or a list of names to pass on and of NAME=value to set.
func (r *reader) variables(c *target.Command) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if n.Kind == yaml.MappingNode {
			r.values("env", func(name, value string) { c.Env = append(c.Env, name+"="+value) })(n)
			return
		}
		r.list(n, func(item *yaml.Node) {
			text, _, ok := r.scalar(item, "NAME or NAME=value")
			switch {
			case !ok:
			case strings.Contains(text, "="):
				c.Env = append(c.Env, text)
			default:
				c.Inherit = append(c.Inherit, text)
			}
		})
	}
}

func (r *reader) exitCodes(n *yaml.Node, c *target.Command) {
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

func (r *reader) forward(n *yaml.Node, of string) *target.Forward {
	f := &target.Forward{}
	before := len(r.faults)
	at := r.mapping(n, "forward of "+of, keys{
		"exchange": r.text(&f.Exchange), "key": r.text(&f.Key), "timeout": r.period(&f.Timeout), "max-hops": r.count(&f.MaxHops),
	})
	if len(r.faults) > before {
		return f
	}
	checked := *f
	checked.Client = &rehop.Client{} // the flow sets it
	if err := checked.Validate(); err != nil {
		r.blame(at, err, nil)
	}
	return f
}
