package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rehop/rehop/topology"
)

// management is a client of RabbitMQ's management API.
type management struct {
	base        string // without credentials; "" if there is none
	vhost       string
	user        string
	password    string
	credentials func(ctx context.Context) (user, password string, err error)
	client      *http.Client
	transport   *http.Transport // nil if the client is the caller's
}

// ErrNoManagement: the method needs the management API, and Config.Management is empty.
var ErrNoManagement = errors.New("this needs the management API, and its address is not set")

// ErrManagementLogin: the management API does not accept the user or the password.
var ErrManagementLogin = errors.New("the management API refuses user and password")

func newManagement(config Config) (*management, error) {
	m := &management{client: config.HTTP, credentials: config.Credentials, vhost: "/", user: "guest", password: "guest"}
	if m.client == nil {
		// All packages share the default transport: if one of them closes its idle connections, a request that is being written to one fails.
		m.transport = http.DefaultTransport.(*http.Transport).Clone()
		m.client = &http.Client{Timeout: 30 * time.Second, Transport: m.transport}
	}
	if broker, err := url.Parse(config.URLs[0]); err == nil {
		m.vhost = cmp.Or(strings.TrimPrefix(broker.Path, "/"), "/")
		m.login(broker.User)
	}
	if config.Management == "" {
		return m, nil
	}
	u, err := url.Parse(config.Management)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		// The error of the parser quotes the URL, and so the password.
		return nil, errors.New("management URL must be like http://user:password@host:15672")
	}
	m.login(u.User)
	m.base = u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/")
	return m, nil
}

// VirtualHost is the virtual host that Config.URL names.
func (a *Admin) VirtualHost() string { return a.management.vhost }

// Management is the address of the management API without user and password, or empty if Config.Management is.
func (a *Admin) Management() string { return a.management.base }

func (m *management) login(user *url.Userinfo) {
	if user.Username() != "" { // of nil, too
		m.user = user.Username()
		m.password, _ = user.Password()
	}
}

// close closes idle connections.
func (m *management) close() {
	if m.transport != nil {
		m.transport.CloseIdleConnections()
	}
}

// maxAnswer is how many bytes of a response are read.
const maxAnswer = 64 << 20

// path replaces each %s of a path, the first one by the virtual host and the others by names.
func (m *management) path(path string, names ...string) string {
	for _, name := range append([]string{m.vhost}, names...) {
		path = strings.Replace(path, "%s", url.PathEscape(name), 1)
	}
	return path
}

// get reads from a path, which is completed as path does it.
func (m *management) get(ctx context.Context, path string, out any, names ...string) error {
	return m.call(ctx, http.MethodGet, m.path(path, names...), nil, out)
}

// statusError is a response with an error status.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return "management API: " + e.text }

func (e *statusError) Is(target error) bool {
	return target == ErrManagementLogin && e.status == http.StatusUnauthorized
}

// statusOf is the status with which the API has refused a request, or 0 if err is something else.
func statusOf(err error) int {
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.status
	}
	return 0
}

// missing reports whether the API does not have what was asked for.
func missing(err error) bool { return statusOf(err) == http.StatusNotFound }

// refused reports whether the API does not have what was asked for, or does not show it to this user.
func refused(err error) bool {
	return slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed}, statusOf(err))
}

// call sends in, unless it is nil, and decodes the response into out, unless that is nil. The request may be sent twice, so it must be idempotent.
func (m *management) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("management API: %s %s: %w", method, path, err)
		}
		body = bytes.NewReader(text)
	}
	res, err := m.send(ctx, m.client, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if out == nil {
		return nil
	}
	answer := json.NewDecoder(io.LimitReader(res.Body, maxAnswer))
	answer.UseNumber()
	if err := answer.Decode(out); err != nil {
		return fmt.Errorf("management API: %s %s: %w", method, path, err)
	}
	return nil
}

// send sends a request. The caller closes the body of the response, which has no error status.
func (m *management) send(ctx context.Context, client *http.Client, method, path string, body io.Reader) (*http.Response, error) {
	if m.base == "" {
		return nil, ErrNoManagement
	}
	req, err := http.NewRequestWithContext(ctx, method, m.base+path, body)
	if err != nil {
		return nil, err
	}
	user, password := m.user, m.password
	if m.credentials != nil {
		if user, password, err = m.credentials(ctx); err != nil {
			return nil, fmt.Errorf("credentials for the management API: %w", err)
		}
	}
	req.SetBasicAuth(user, password)
	req.Header.Set("Content-Type", "application/json")
	// The server may close an idle connection while a request is on its way. With this header, which is not sent because it has no values,
	// net/http then repeats PUT and DELETE on a new connection, as it does with GET.
	req.Header["Idempotency-Key"] = []string{}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("management API: %w", err)
	}
	if res.StatusCode >= 300 {
		defer res.Body.Close()
		reason := reasonOf(res.Body)
		if res.StatusCode == http.StatusBadRequest && req.URL.Scheme == "http" && reason == "" {
			// Go and other servers answer so on a port for TLS. The API itself always gives a reason.
			reason = "; if the management API uses TLS, write https:// in its URL"
		}
		return nil, &statusError{res.StatusCode, fmt.Sprintf("%s %s: %s%s", method, m.base+path, res.Status, reason)}
	}
	return res, nil
}

// reasonOf is the reason that the API gives for an error status.
func reasonOf(body io.Reader) string {
	var answer struct{ Reason any }
	if json.NewDecoder(io.LimitReader(body, 64<<10)).Decode(&answer) != nil || answer.Reason == nil {
		return ""
	}
	return fmt.Sprintf(": %v", answer.Reason)
}

// Live returns the exchanges, queues, bindings and policies of the virtual host. It needs the management API, whose message counts
// are a few seconds old.
func (a *Admin) Live(ctx context.Context) (topology.Live, error) {
	live, err := a.management.live(ctx)
	if err != nil {
		return live, fmt.Errorf("look at the virtual host %q: %w", a.management.vhost, err)
	}
	return live, nil
}

func (m *management) live(ctx context.Context) (live topology.Live, err error) {
	var (
		exchanges []apiExchange
		queues    []apiQueue
		bindings  []apiRoute
	)
	for _, list := range []struct {
		path string
		out  any
	}{
		{"/api/exchanges/%s?columns=name,type,durable,auto_delete,internal,arguments,policy", &exchanges},
		{"/api/queues/%s?columns=name,type,durable,auto_delete,exclusive,arguments,policy,operator_policy," +
			"messages_ready,messages_unacknowledged,messages_delayed,consumers", &queues},
		{"/api/bindings/%s", &bindings},
		{"/api/policies/%s", &live.Policies},
	} {
		if err := m.get(ctx, list.path, list.out); err != nil {
			return live, err
		}
	}
	if err := m.get(ctx, "/api/operator-policies/%s", &live.OperatorPolicies); err != nil && !refused(err) {
		return live, err
	}
	if err := m.defaults(ctx, &live); err != nil {
		return live, err
	}
	for _, x := range exchanges {
		live.Exchanges = append(live.Exchanges, x.live())
	}
	for _, q := range queues {
		live.Queues = append(live.Queues, q.live())
	}
	for _, b := range bindings {
		if b.Source != "" { // every queue is bound to the default exchange
			live.Bindings = append(live.Bindings, b.binding())
		}
	}
	live.ApplyPolicies()
	return live, nil
}

// defaults finds the version of the broker, and the type of queues that are declared without one. Not every user may read the latter.
func (m *management) defaults(ctx context.Context, live *topology.Live) error {
	var overview struct {
		Version string `json:"rabbitmq_version"`
		Product string `json:"product_name"`
	}
	if err := m.get(ctx, "/api/overview?columns=rabbitmq_version,product_name", &overview); err != nil {
		return err
	}
	live.Version, live.Product = overview.Version, overview.Product
	var vhost struct {
		DefaultType string `json:"default_queue_type"`
	}
	if err := m.get(ctx, "/api/vhosts/%s", &vhost); err != nil && !refused(err) {
		return err
	}
	if vhost.DefaultType != "undefined" {
		live.DefaultType = vhost.DefaultType
	}
	return nil
}

// perhaps is an object of the API. RabbitMQ writes an empty one as a list.
type perhaps[T any] struct{ object T }

func (p *perhaps[T]) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	return decoder.Decode(&p.object)
}

type apiExchange struct {
	Name       string                 `json:"name"`
	Kind       string                 `json:"type"`
	Durable    bool                   `json:"durable"`
	AutoDelete bool                   `json:"auto_delete"`
	Internal   bool                   `json:"internal"`
	Arguments  perhaps[topology.Args] `json:"arguments"`
	Policy     string                 `json:"policy"`
}

func (x apiExchange) live() topology.LiveExchange {
	return topology.LiveExchange{
		Exchange: topology.Exchange{Name: x.Name, Type: x.Kind, Internal: x.Internal, AutoDelete: x.AutoDelete, Args: x.Arguments.object},
		Durable:  x.Durable, Policy: x.Policy,
	}
}

// apiQueue has the columns of a queue that a request has asked for.
type apiQueue struct {
	Name           string                 `json:"name"`
	Type           string                 `json:"type"`
	Durable        bool                   `json:"durable"`
	AutoDelete     bool                   `json:"auto_delete"`
	Exclusive      bool                   `json:"exclusive"`
	Arguments      perhaps[topology.Args] `json:"arguments"`
	Policy         string                 `json:"policy"`
	OperatorPolicy string                 `json:"operator_policy"`
	Ready          int                    `json:"messages_ready"`
	Unacked        int                    `json:"messages_unacknowledged"`
	Delayed        int                    `json:"messages_delayed"` // by a quorum queue of RabbitMQ 4.3
	Dying          int                    `json:"messages_dlx"`     // dead-lettered, and not yet confirmed by their next queue
	Bytes          int                    `json:"message_bytes"`
	Consumers      int                    `json:"consumers"`
	Members        []string               `json:"members"` // of a quorum queue
	Online         []string               `json:"online"`
	Stats          perhaps[apiRates]      `json:"message_stats"`
}

// apiRates are absent for a queue that nobody has used.
type apiRates struct {
	In  apiRate `json:"publish_details"`
	Out apiRate `json:"ack_details"`
}

func (q apiQueue) live() topology.LiveQueue {
	return topology.LiveQueue{
		Queue: topology.Queue{Name: q.Name, AutoDelete: q.AutoDelete, Exclusive: q.Exclusive, Args: q.Arguments.object},
		Type:  q.Type, Durable: q.Durable, Policy: q.Policy, OperatorPolicy: q.OperatorPolicy,
		Ready: q.Ready, Unacked: q.Unacked, Delayed: q.Delayed, Consumers: q.Consumers,
	}
}

// apiRoute is a binding.
type apiRoute struct {
	Source          string                 `json:"source"`
	Destination     string                 `json:"destination"`
	DestinationType string                 `json:"destination_type"`
	Key             string                 `json:"routing_key"`
	Arguments       perhaps[topology.Args] `json:"arguments"`
	Properties      string                 `json:"properties_key"` // the key, and a hash of the arguments with their types
}

// id identifies the key and the arguments of a binding.
func (r apiRoute) id() string { return r.Key + "\x00" + r.Properties }

func (r apiRoute) binding() topology.Binding {
	return topology.Binding{Source: r.Source, Destination: r.Destination, ToExchange: r.DestinationType == "exchange", Key: r.Key, Args: r.Arguments.object}
}
