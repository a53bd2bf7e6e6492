package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// Embedded is the embedded broker.
type Embedded struct {
	// Data is its directory. Empty: everything is in memory, and lost at the end.
	Data string
	// AMQP and Management are the addresses on which it listens. Empty: it does not listen.
	AMQP, Management string
	// Users can log in from everywhere. Without them see Login.
	Users []config.User
	// RabbitMQ is the release whose rules it follows. 0: the default of the broker.
	RabbitMQ broker.Compat
	// MaxBody is the largest body that it accepts. 0: the default of the broker.
	MaxBody int

	server   *broker.Server
	pipe     *pipeListener // the management API for this process
	once     sync.Once
	password string
}

// brokerFailure is why the embedded broker has failed, or nil.
func (r *running) brokerFailure() error {
	if r.Embedded == nil || r.Embedded.server == nil {
		return nil
	}
	if err := r.Embedded.server.Err(); err != nil && !errors.Is(err, broker.ErrClosed) {
		return err
	}
	return nil
}

// brokerDone is closed when the embedded broker has ended. It is nil if there is none.
func (r *running) brokerDone() <-chan struct{} {
	if r.Embedded == nil || r.Embedded.server == nil {
		return nil
	}
	return r.Embedded.server.Done()
}

// startBroker starts the broker. Call the end that it returns even if it returns an error.
func (r *running) startBroker(ctx context.Context) (end func() error, err error) {
	e := r.Embedded
	var ends closers
	end = func() error { return ends.close() }
	amqp, err := listen(e.AMQP, "AMQP", config.ListenerAMQP)
	if err != nil {
		return end, fmt.Errorf("%w; or use the running broker with --broker", err)
	}
	ends = append(ends, closeOnce(amqp))
	management, err := listen(e.Management, "the management API", config.ListenerManagement)
	if err != nil {
		return end, err
	}
	ends = append(ends, closeOnce(management))
	if err := r.openBroker(amqp, management); err != nil {
		return end, err
	}
	ends = append(ends, func() error {
		if err := e.server.Close(); r.brokerFailure() == nil {
			return err
		}
		return nil // the failure was reported
	})
	r.serving.Go(func() {
		<-e.server.Done()
		if err := r.brokerFailure(); err != nil {
			r.fail(fmt.Errorf("the embedded broker has failed: %w", err))
		}
	})
	handler, err := mgmt.Handler(e.server)
	if err != nil {
		return end, fmt.Errorf("start the management API: %w", err)
	}
	e.pipe = newPipeListener()
	_, closePipe := r.serve(e.pipe, "the management API within the process", handler, nil)
	ends = append(ends, closePipe)
	if login := r.report.Login; login.LocalOnly && !e.pipe.accepts(ctx, login.User, login.Password) {
		*login = Login{} // somebody has changed or deleted guest
	}
	if amqp != nil {
		r.report.AMQP = r.report.Login.url(amqp, e.server.TLS != nil)
		r.reportListener(amqp, config.ListenerAMQP, true)
		// Longer than ctx: other programs can publish while the flows are drained.
		r.serving.Go(func() {
			err := e.server.Serve(context.WithoutCancel(ctx), amqp)
			if e.server.Err() == nil && err != nil && !r.ending.Load() {
				r.fail(fmt.Errorf("serve AMQP: %w", err))
			}
		})
	}
	if management != nil {
		encryption, err := r.listenerTLS(config.ListenerManagement, "h2", "http/1.1")
		if err != nil {
			return end, err
		}
		at, closeAPI := r.serve(management, "the management API", handler, encryption)
		r.report.Management = at
		r.reportListener(management, config.ListenerManagement, true)
		ends = append(ends, closeAPI)
	}
	return end, nil
}

// openBroker opens the directory of the broker, which serves nobody yet.
func (r *running) openBroker(amqp, management net.Listener) error {
	e := r.Embedded
	users, login, err := e.users(amqp, management)
	if err != nil {
		return err
	}
	encryption, err := r.listenerTLS(config.ListenerAMQP)
	if err != nil {
		return err
	}
	limits := r.file.Limits
	e.server = &broker.Server{Dir: e.Data, Compat: e.RabbitMQ, MaxMessage: e.MaxBody, Users: users, Hosts: r.hosts(e.Management), TLS: encryption, Logger: r.Logger,
		MemoryLimit: int64(limits.Memory), DiskReserve: int64(limits.DiskReserve), MaxConnections: limits.Connections, ChannelMax: limits.Channels}
	r.report.Data, r.report.Memory, r.report.Login = e.Data, e.Data == "", &login
	if err := e.server.Start(); err != nil {
		err = fmt.Errorf("start the broker in %s: %w", e.Data, err)
		if damage := (*broker.CorruptError)(nil); errors.As(err, &damage) {
			err = fmt.Errorf("%w; rehop broker check %s lists the damage, and rehop broker repair %[2]s keeps what is not damaged", err, e.Data)
		}
		return err
	}
	if login.Password != "" && login.PasswordFile != "" {
		r.Logger.Info("a user was created for the first login", "user", login.User, "password_file", login.PasswordFile)
	}
	return nil
}

// url is the URL of the broker, with a password only if everybody knows it.
func (l *Login) url(at net.Listener, encrypted bool) string {
	u := url.URL{Scheme: "amqp", Host: hostOf(at), Path: "/"}
	if encrypted {
		u.Scheme = "amqps"
	}
	switch {
	case l.LocalOnly:
		u.User = url.UserPassword(l.User, l.Password)
	case l.User != "":
		u.User = url.User(l.User)
	}
	return u.String()
}
