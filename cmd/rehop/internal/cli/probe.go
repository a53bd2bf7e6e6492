package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// probeLimit is how long rehop waits for a management API that nothing names.
const probeLimit = 2 * time.Second

// probe forgets an optional management API that does not answer, or does not let the broker's user in: commands that do not need it must work
// without it, and at once.
func (a *apiPlace) probe(ctx context.Context, client *http.Client, login *url.Userinfo, limit time.Duration) {
	if !a.optional || a.url == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, min(limit, probeLimit))
	defer cancel()
	// First without login, which is not for whatever else may listen there.
	status, err := ask(ctx, client, a.url, nil)
	if err == nil && status == http.StatusUnauthorized {
		if status, err = ask(ctx, client, a.url, login); err == nil && status != http.StatusOK {
			err = fmt.Errorf("it refuses the broker's user (status %d), who needs the tag management", status)
		}
	} else if err == nil {
		err = fmt.Errorf("what listens there is no management API (status %d)", status)
	}
	if err != nil {
		a.why, a.url = unreachable(fmt.Errorf("it cannot be used at %s (%s): %w", a.url, a.from, withoutRequest(err))), ""
	}
}

// login is the login of the broker's first URL.
func (b brokerPlace) login() *url.Userinfo {
	if u, err := url.Parse(b.urls[0]); err == nil && u.User.Username() != "" {
		return u.User
	}
	return url.UserPassword("guest", "guest") // as the client of the broker
}

// ask asks a management API who the user is, and returns the status of the answer.
func ask(ctx context.Context, client *http.Client, api string, login *url.Userinfo) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, api+"/api/whoami", nil)
	if err != nil {
		return 0, err
	}
	if login != nil {
		password, _ := login.Password()
		request.SetBasicAuth(login.Username(), password)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// withoutRequest is an error of an HTTP client without its request.
func withoutRequest(err error) error {
	if web, ok := errors.AsType[*url.Error](err); ok {
		return web.Err
	}
	return err
}
