package admin

import (
	"bytes"
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
)

// management speaks to RabbitMQ's management API.
type management struct {
	base        string // without credentials; "" if there is none
	vhost       string
	user        string
	password    string
	credentials func(ctx context.Context) (user, password string, err error)
	client      *http.Client
	transport   *http.Transport // nil if the client is the caller's
}

// ErrNoManagement: the call needs the management API, and Config.Management is empty.
var ErrNoManagement = errors.New("this needs the management API; set Config.Management")

// ErrManagementLogin: the management API does not know the user, or not with this password.
var ErrManagementLogin = errors.New("the management API refuses user and password")

func newManagement(config Config) (*management, error) {
	m := &management{client: config.HTTP, credentials: config.Credentials, vhost: "/"}
	if m.client == nil {
		// The default transport is everybody's: whoever closes its idle connections may break a request that is just being written to one.
		m.transport = http.DefaultTransport.(*http.Transport).Clone()
		m.client = &http.Client{Timeout: 30 * time.Second, Transport: m.transport}
	}
	broker, err := url.Parse(config.URLs[0])
	if err == nil {
		if v := strings.TrimPrefix(broker.Path, "/"); v != "" {
			m.vhost = v
		}
		m.login(broker.User)
	}
	if config.Management == "" {
		return m, nil
	}
	u, err := url.Parse(config.Management)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		// What the parser says quotes the URL, and so the password.
		return nil, errors.New("management URL must be like http://user:password@host:15672")
	}
	m.login(u.User)
	m.base = u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/")
	return m, nil
}

func (m *management) login(user *url.Userinfo) {
	if user != nil {
		m.user = user.Username()
		m.password, _ = user.Password()
	}
	if m.user == "" {
		m.user, m.password = "guest", "guest"
	}
}

// close lets go of the connections that nothing uses.
func (m *management) close() {
	if m.transport != nil {
		m.transport.CloseIdleConnections()
	}
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

// get reads path, in which %s stands for the virtual host.
func (m *management) get(ctx context.Context, path string, out any) error {
	return m.call(ctx, http.MethodGet, fmt.Sprintf(path, url.PathEscape(m.vhost)), nil, out)
}

// statusError is an answer that says no.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return "management API: " + e.text }

func (e *statusError) Is(target error) bool {
	return target == ErrManagementLogin && e.status == http.StatusUnauthorized
}

// refused reports whether the API answered, and said that there is no such thing for this user.
func refused(err error) bool {
	var s *statusError
	return errors.As(err, &s) && slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed}, s.status)
}

// call sends in, if there is any, and reads out. It may send twice, so method and path must mean the same at the second time.
func (m *management) call(ctx context.Context, method, path string, in, out any) error {
	if m.base == "" {
		return ErrNoManagement
	}
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("management API: %s %s: %w", method, path, err)
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, m.base+path, body)
	if err != nil {
		return err
	}
	user, password := m.user, m.password
	if m.credentials != nil {
		if user, password, err = m.credentials(ctx); err != nil {
			return fmt.Errorf("credentials for the management API: %w", err)
		}
	}
	req.SetBasicAuth(user, password)
	req.Header.Set("Content-Type", "application/json")
	// The server may close an idle connection while a request is on its way to it. Without values this header is not sent, and has PUT and
	// DELETE repeated on a new connection, as GET is anyway.
	req.Header["Idempotency-Key"] = []string{}
	res, err := m.client.Do(req)
	if err != nil {
		return fmt.Errorf("management API: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode >= 300 {
		return &statusError{res.StatusCode, fmt.Sprintf("%s %s: %s%s", method, path, res.Status, reasonOf(res.Body))}
	}
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

// reasonOf is what the API says of its own no.
func reasonOf(body io.Reader) string {
	var said struct{ Reason any }
	if json.NewDecoder(io.LimitReader(body, 64<<10)).Decode(&said) != nil || said.Reason == nil {
		return ""
	}
	return fmt.Sprintf(": %v", said.Reason)
}
