package serve

import (
	"context"
	"errors"
	"fmt"

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
	// Users can log in from everywhere, guest only from this machine.
	Users []config.User
	// RabbitMQ is the release whose rules it follows. 0: the default of the broker.
	RabbitMQ broker.Compat
	// MaxBody is the largest body that it accepts. 0: the default of the broker.
	MaxBody int

	server *broker.Server
}

// users are the given users and, for tools on this machine, guest.
func (e *Embedded) users() []broker.User {
	all := map[string]broker.Permission{"*": {Configure: ".*", Write: ".*", Read: ".*"}}
	users := []broker.User{{Name: "guest", Password: "guest", Tags: []string{"administrator"}, Permissions: all, LoopbackOnly: true}}
	for _, u := range e.Users {
		users = append(users, broker.User{Name: u.Name, Password: u.Password, Tags: u.Tags, Permissions: all})
	}
	return users
}

// brokerFailure is why the embedded broker has failed, or nil.
func (r *run) brokerFailure() error {
	if r.Embedded == nil || r.Embedded.server == nil {
		return nil
	}
	if err := r.Embedded.server.Err(); err != nil && !errors.Is(err, broker.ErrClosed) {
		return err
	}
	return nil
}

// brokerDone is closed when the embedded broker has ended. It is nil if there is none.
func (r *run) brokerDone() <-chan struct{} {
	if r.Embedded == nil || r.Embedded.server == nil {
		return nil
	}
	return r.Embedded.server.Done()
}

// startBroker starts the broker. Call the end that it returns even if it returns an error.
func (r *run) startBroker(ctx context.Context) (end func() error, err error) {
	e := r.Embedded
	e.server = &broker.Server{Dir: e.Data, Compat: e.RabbitMQ, MaxMessage: e.MaxBody, Users: e.users(), Logger: r.Logger}
	r.report.Data, r.report.Memory = e.Data, e.Data == ""
	if err := e.server.Start(); err != nil {
		return nil, fmt.Errorf("start the broker in %s: %w", e.Data, err)
	}
	ends := closers{func() error {
		if err := e.server.Close(); r.brokerFailure() == nil {
			return err
		}
		return nil // the failure was reported
	}}
	end = func() error { return ends.close() }
	r.serving.Go(func() {
		<-e.server.Done()
		if err := r.brokerFailure(); err != nil {
			r.fail(fmt.Errorf("the embedded broker has failed: %w", err))
		}
	})
	if e.AMQP != "" {
		listener, err := listen(e.AMQP, "AMQP", "amqp")
		if err != nil {
			return end, fmt.Errorf("%w; or use the running broker with --broker", err)
		}
		r.report.AMQP = "amqp://guest:guest@" + listener.Addr().String() + "/"
		// Longer than ctx: other programs can publish while the flows are drained.
		r.serving.Go(func() {
			err := e.server.Serve(context.WithoutCancel(ctx), listener)
			if e.server.Err() == nil && err != nil && !r.ending.Load() {
				r.fail(fmt.Errorf("serve AMQP: %w", err))
			}
		})
	}
	if e.Management != "" {
		handler, err := mgmt.Handler(e.server)
		if err != nil {
			return end, fmt.Errorf("start the management API: %w", err)
		}
		at, closing, err := r.serve(e.Management, "the management API", "management", handler)
		if err != nil {
			return end, err
		}
		r.report.Management = at
		ends = append(ends, closing)
	}
	return end, nil
}
