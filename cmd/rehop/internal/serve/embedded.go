package serve

import (
	"context"
	"errors"
	"fmt"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
)

// Embedded is a broker within this program.
type Embedded struct {
	// Data is its directory. Empty: everything is in memory, and gone at the end.
	Data string
	// AMQP and Management are the addresses on which it listens. Empty: on none.
	AMQP, Management string

	server *broker.Server
}

// startBroker starts the broker. The end that it returns is to be called also if there is an error.
func (r *run) startBroker(ctx context.Context) (end func() error, err error) {
	e := r.Embedded
	e.server = &broker.Server{Dir: e.Data, Logger: r.Logger}
	r.report.Data, r.report.Memory = e.Data, e.Data == ""
	if err := e.server.Start(); err != nil {
		return nil, fmt.Errorf("start the broker in %s: %w", e.Data, err)
	}
	ends := []func() error{e.server.Close}
	end = func() error {
		var err error
		for i := len(ends) - 1; i >= 0; i-- {
			err = errors.Join(err, ends[i]())
		}
		return err
	}
	if e.AMQP != "" {
		listener, err := listen(e.AMQP, "AMQP", "amqp")
		if err != nil {
			return end, fmt.Errorf("%w; or use the broker that is there with --broker", err)
		}
		r.report.AMQP = "amqp://guest:guest@" + listener.Addr().String() + "/"
		// Not until ctx ends: programs that publish go on while the flows are drained.
		r.serving.Go(func() {
			if err := e.server.Serve(context.WithoutCancel(ctx), listener); err != nil && !r.ending.Load() {
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
