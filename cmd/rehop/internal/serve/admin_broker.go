package serve

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/layout"
)

// adminBroker is the connection of the console and the index of failed messages to the broker of the loaded file.
type adminBroker struct {
	run  *running
	file atomic.Pointer[config.File] // the loaded one

	turn   chan struct{} // has one place: for who uses the fields below
	opened *admin.Admin  // nil: it is not connected
	of     *config.File  // whose broker that is
	closed bool
}

func newAdminBroker(r *running) *adminBroker {
	b := &adminBroker{run: r, turn: make(chan struct{}, 1)}
	b.file.Store(r.file)
	return b
}

// use makes the next call of connect connect to the broker of another file.
func (b *adminBroker) use(file *config.File) { b.file.Store(file) }

// connect connects when it is called first, and after another file was loaded.
func (b *adminBroker) connect(ctx context.Context) (*admin.Admin, error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	file := b.file.Load()
	if b.closed {
		return nil, errors.New("the service is ending")
	}
	if b.opened != nil && b.of == file {
		return b.opened, nil
	}
	reach, err := b.run.reachOf(file)
	if err != nil {
		return nil, err
	}
	opened, err := admin.Open(ctx, reach)
	if err != nil {
		return nil, err
	}
	if b.opened != nil {
		b.opened.Close()
	}
	b.opened, b.of = opened, file
	return opened, nil
}

func (b *adminBroker) close() {
	b.turn <- struct{}{}
	defer func() { <-b.turn }()
	if b.closed = true; b.opened != nil {
		b.opened.Close()
	}
}

// reachOf returns how to administrate the broker of a file. Management is empty if no API is named.
func (r *running) reachOf(file *config.File) (reach admin.Config, err error) {
	if e := r.Embedded; e != nil {
		reach = admin.Config{Dial: e.server.Dial, Management: withinURL, HTTP: e.pipe.client(), Credentials: e.credentials}
	} else {
		broker, err := r.Connect(file)
		if err != nil {
			return reach, err
		}
		reach = admin.Config{URLs: broker.URLs, TLS: broker.TLS}
		if reach.Management, reach.HTTP, err = r.Management(file); err != nil {
			return reach, err
		}
	}
	reach.Layouts = make(map[string]layout.Layout, len(file.Flows))
	for _, f := range file.Flows {
		of := f.Subscriber.Layout
		if of == nil {
			of = layout.Native{Type: file.QueueType}
		}
		reach.Layouts[f.Subscriber.Queue] = of
	}
	return reach, nil
}
