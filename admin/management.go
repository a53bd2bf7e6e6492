package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
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
}

// ErrNoManagement: the call needs the management API, and Config.Management is empty.
var ErrNoManagement = errors.New("this needs the management API; set Config.Management")

func newManagement(config Config) (*management, error) {
	m := &management{client: config.HTTP, credentials: config.Credentials, vhost: "/"}
	if m.client == nil {
		m.client = &http.Client{Timeout: 30 * time.Second}
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

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

// get reads path, in which %s stands for the virtual host.
func (m *management) get(ctx context.Context, path string, out any) error {
	if m.base == "" {
		return ErrNoManagement
	}
	path = fmt.Sprintf(path, url.PathEscape(m.vhost))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base+path, nil)
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
	res, err := m.client.Do(req)
	if err != nil {
		return fmt.Errorf("management API: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("management API: GET %s: %s", path, res.Status)
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("management API: GET %s: %w", path, err)
	}
	return nil
}
