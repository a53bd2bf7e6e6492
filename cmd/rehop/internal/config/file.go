package config

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/layout"
)

// File is the content of a rehop.yaml. Zero values mean that the file does not set them.
type File struct {
	Path string
	// Sum identifies the content, if it was read by Load.
	Sum Sum
	// Broker has the URLs of the broker's nodes.
	Broker []string
	// NamesBroker is set by Index, which does not read Broker: the file has that key.
	NamesBroker bool
	// Management is the URL of the broker's management API.
	Management string
	TLS        TLS
	// Data is the directory of the embedded broker.
	Data   string
	Listen Listen
	// Hosts are names under which the HTTP listeners are reached, in addition to IP addresses, localhost and the name of the machine.
	Hosts []string
	// Users are users of the embedded broker. Without them, guest can log in from this machine.
	Users []User
	// Limits are limits of the embedded broker.
	Limits Limits
	// RabbitMQ is the release whose rules the embedded broker follows.
	RabbitMQ broker.Compat
	// MaxBody is the largest body in bytes that is published, and that the embedded broker accepts.
	MaxBody int
	// QueueType is the type of delay queues and failed queues.
	QueueType layout.QueueType
	Log       Log
	// Drain is how long handlers may take to finish when the program ends.
	Drain     time.Duration
	Exchanges []rehop.Exchange
	Flows     []Flow
	Outboxes  []Outbox
	Triage    Triage
	// Console is the console on the HTTP address.
	Console Console
	// Notes are hints that are not errors, in the order of the lines.
	Notes Faults
}

// Listen has the addresses on which the program listens.
type Listen struct {
	AMQP       string // of the embedded broker
	Management string // of its management API
	HTTP       string // of health and metrics
	TLS        ListenTLS
}

// TLS names files for connections to the broker.
type TLS struct{ CA, Cert, Key string }

// Log is how the program logs.
type Log struct {
	Format string // text, json or auto
	Level  string // debug, info, warn or error
}

// largestBody is the most that any broker accepts.
const largestBody = 512 << 20

const (
	largest      = 4 << 20 // of a file, in bytes
	defaultDrain = 30 * time.Second
)

// Load reads a file. If it has errors, Load returns all of them as Faults. A file without any key is an error: nobody writes one on purpose, and
// an editor can leave one for a moment while it saves.
func Load(path string) (*File, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	file, err := Parse(path, text, os.LookupEnv)
	if err == nil {
		file.Sum = sha256.Sum256(text)
	}
	return file, err
}

// None is the configuration of a service without a file.
func None() *File { return &File{Path: "(no file)", Drain: defaultDrain} }

func reason(err error) string {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err.Error()
	}
	return err.Error()
}

// Parse reads the text of a file. ${NAME} in its values is looked up in env.
func Parse(path string, text []byte, env func(name string) (value string, set bool)) (*File, error) {
	r := &reader{path: path, env: env}
	return r.parse(text)
}

func (r *reader) parse(text []byte) (*File, error) {
	if len(text) > largest {
		r.fault(nil, "has more than %d bytes", largest)
		return nil, r.faults
	}
	file := &File{Path: r.path, Drain: defaultDrain}
	switch root := r.document(text); {
	case root != nil:
		r.file(root, file)
	case len(r.faults) == 0:
		r.fault(nil, "has no keys: it is empty, or has only comments; rehop init writes an example")
	}
	if len(r.faults) > 0 {
		return nil, r.faults.sorted()
	}
	file.Notes = r.notes.sorted()
	return file, nil
}

// lineOf finds the line in an error of the parser.
var lineOf = regexp.MustCompile(`^yaml: line (\d+): (.*)$`)

// document returns the root of the document in a file. Nil: there is none, or it is not YAML.
func (r *reader) document(text []byte) *yaml.Node {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var node, second yaml.Node
	err := decoder.Decode(&node)
	if err == nil {
		if next := decoder.Decode(&second); next == nil {
			r.fault(&second, "a second document begins here; there can be only one")
		} else if !errors.Is(next, io.EOF) {
			err = next
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		fault := Fault{File: r.path, Line: 1, Text: "this is no YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
		if found := lineOf.FindStringSubmatch(err.Error()); found != nil {
			fault.Line, _ = strconv.Atoi(found[1])
			fault.Text = "this is no YAML: " + found[2]
		}
		r.faults = append(r.faults, fault)
		return nil
	}
	root := aliased(node.Content[0])
	if root.Tag == "!!null" {
		return nil
	}
	return root
}

func (r *reader) file(root *yaml.Node, f *File) {
	var listen places
	at := r.mapping(withoutOwn(root), "the file", keys{
		"broker":     r.texts(&f.Broker),
		"management": r.text(&f.Management),
		"tls": func(n *yaml.Node) {
			r.mapping(n, "tls", keys{"ca": r.text(&f.TLS.CA), "cert": r.text(&f.TLS.Cert), "key": r.text(&f.TLS.Key)})
		},
		"data": r.text(&f.Data),
		"listen": func(n *yaml.Node) {
			listen = r.mapping(n, "listen", keys{"amqp": r.text(&f.Listen.AMQP), "management": r.text(&f.Listen.Management), "http": r.text(&f.Listen.HTTP), "tls": r.listenTLS(&f.Listen.TLS)})
		},
		"hosts":      r.hosts(&f.Hosts),
		"users":      func(n *yaml.Node) { r.users(n, f) },
		"limits":     r.limits(&f.Limits),
		"rabbitmq":   value(r, &f.RabbitMQ, "a release of RabbitMQ", "a release of RabbitMQ whose rules rehop knows: 3.10, 3.13, 4.0 or 4.3", broker.ParseCompat),
		"max-body":   r.bytes(&f.MaxBody),
		"queue-type": choice(r, &f.QueueType, layout.Quorum, layout.Classic),
		"drain":      r.period(&f.Drain),
		"log": func(n *yaml.Node) {
			r.mapping(n, "log", keys{"format": choice(r, &f.Log.Format, "auto", "text", "json"), "level": choice(r, &f.Log.Level, "debug", "info", "warn", "error")})
		},
		"exchanges": func(n *yaml.Node) { r.exchanges(n, f) },
		"flows":     func(n *yaml.Node) { r.flows(n, f) },
		"outboxes":  func(n *yaml.Node) { r.outboxes(n, f) },
		"triage":    func(n *yaml.Node) { r.triage(n, &f.Triage) },
		"console":   func(n *yaml.Node) { r.console(n, &f.Console) },
	})
	for _, key := range []string{"data", "users", "limits", "rabbitmq"} {
		if _, given := at.keys[key]; given && len(f.Broker) > 0 {
			r.fault(at.at(key), "%s is for the embedded broker, which is not started because broker names another one", key)
		}
	}
	for _, url := range f.Broker {
		if IsHere(url, f.Listen.AMQP) {
			r.fault(at.at("broker"), "broker is the address of listen.amqp, and no broker is started there because broker is set; remove broker to start the embedded one, or listen.amqp to use another broker at this address")
			break
		}
	}
	for _, user := range r.withoutPassword {
		if f.Listen.TLS.ClientCA == "" { // otherwise the user can have a certificate
			r.fault(user, "user %q has no password; write ${NAME} and set NAME in the environment", user.Value)
		}
	}
	if _, given := at.keys["max-body"]; given && (f.MaxBody < 1 || f.MaxBody > largestBody) {
		r.fault(at.at("max-body"), "max-body must be from 1 to %d bytes (512MiB)", largestBody)
	}
	if (f.TLS.Cert == "") != (f.TLS.Key == "") {
		r.fault(at.at("tls"), "cert and key belong together: give both")
	}
	if f.TLS.Cert != "" && f.Listen.TLS.Cert == "" && len(f.Broker) == 0 {
		r.note(at.at("tls"), "tls is for connections that rehop makes, and does not encrypt its listeners; for these, use tls in listen")
	}
	if r.here {
		r.certificates(f, at, listen)
	}
	if _, err := rehop.Topology(f.Config()); err != nil {
		r.blame(at, err, map[string]string{"URL": "broker"})
		return
	}
	r.agree(f)
}

// withoutOwn leaves out keys that begin with x-, in which files can keep values for aliases.
func withoutOwn(root *yaml.Node) *yaml.Node {
	if root.Kind != yaml.MappingNode {
		return root
	}
	kept := *root
	kept.Content = nil
	for i := 0; i+1 < len(root.Content); i += 2 {
		if !strings.HasPrefix(root.Content[i].Value, "x-") {
			kept.Content = append(kept.Content, root.Content[i], root.Content[i+1])
		}
	}
	return &kept
}

// users reads users by name: a password, or a mapping.
func (r *reader) users(n *yaml.Node, f *File) {
	r.named(n, "users", func(name string, key, value *yaml.Node) {
		if r.onlyUser != "" && name != r.onlyUser {
			return
		}
		u := User{Name: name}
		faults := len(r.faults)
		if value.Kind == yaml.ScalarNode {
			if value.Tag != "!!null" {
				r.password(&u)(value)
			}
		} else {
			r.mapping(value, fmt.Sprintf("user %q", name), r.userKeys(&u))
		}
		switch {
		case name == localUser:
			r.fault(key, "user %s is the one that exists if there are no users here, and can log in only from this machine; choose another name", localUser)
		case name == InternalUser:
			r.fault(key, "user %s is for the flows of this process; choose another name", InternalUser)
		case len(name) > 255:
			r.fault(key, "the name of a user has %d bytes; AMQP allows 255", len(name))
		case u.Password == "" && len(r.faults) == faults: // otherwise the password may be what could not be read
			r.withoutPassword = append(r.withoutPassword, key)
		}
		f.Users = append(f.Users, u)
	})
}

// exchanges reads exchanges by name: a type, or a mapping, or nothing.
func (r *reader) exchanges(n *yaml.Node, f *File) {
	r.named(n, "exchanges", func(name string, key, value *yaml.Node) {
		x := rehop.Exchange{Name: name}
		exchangeType := choice(r, &x.Type, "topic", "direct", "fanout", "headers")
		switch {
		case value.Tag == "!!null":
		case value.Kind == yaml.ScalarNode:
			exchangeType(value)
		default:
			r.mapping(value, fmt.Sprintf("exchange %q", name), keys{"type": exchangeType, "layout": r.layout(&x.Layout)})
		}
		if len(name) > 255 {
			r.fault(key, "the name of an exchange has %d bytes; AMQP allows 255", len(name))
		}
		f.Exchanges = append(f.Exchanges, x)
	})
}

// Config returns the configuration of a client for the file, without TLS.
func (f *File) Config() rehop.Config {
	return rehop.Config{URLs: f.Broker, Exchanges: f.Exchanges, QueueType: f.QueueType}
}

// Subscribers returns the subscribers of the flows, without handlers.
func (f *File) Subscribers() []rehop.Subscriber {
	all := make([]rehop.Subscriber, len(f.Flows))
	for i, flow := range f.Flows {
		all[i] = flow.Ordered()
	}
	return all
}
