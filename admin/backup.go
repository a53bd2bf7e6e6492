package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// ErrNoBackup: the broker is not an embedded broker, which alone has backups.
var ErrNoBackup = errors.New("only the embedded broker has backups; for RabbitMQ, use its own tools")

// Backup returns a backup of an embedded broker, as broker.Server.Backup writes it. It needs the management API, and a user with
// the tag administrator. The caller reads it to its end and closes it. Only broker.CheckBackup and broker.RestoreDir know whether it is
// complete: a backup that the broker gives up just ends, with the reason in it.
func (a *Admin) Backup(ctx context.Context) (io.ReadCloser, error) {
	res, err := a.management.stream(ctx, "/api/rehop/backup")
	if missing(err) || statusOf(err) == http.StatusMethodNotAllowed {
		err = ErrNoBackup
	}
	if err != nil {
		return nil, fmt.Errorf("back up the broker: %w", err)
	}
	return res, nil
}

// stream reads from a path without a limit of time.
func (m *management) stream(ctx context.Context, path string) (io.ReadCloser, error) {
	unlimited := *m.client
	unlimited.Timeout = 0
	res, err := m.send(ctx, &unlimited, http.MethodGet, path, nil)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}
