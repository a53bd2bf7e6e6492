package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

var (
	// ErrSamePlace: source and target are the same virtual host.
	ErrSamePlace = errors.New("source and target are the same virtual host of the same broker")
	// ErrOtherBroker: Config.Management is the API of another broker than Config.URL.
	ErrOtherBroker = errors.New("the management API belongs to another broker, or to one without this virtual host")
)

// markLimit is how long the management API of a cluster may need to show a queue that exists.
const markLimit = 2 * time.Second

// mark is a queue that shows where a connection leads. The broker deletes it with the connection at the latest.
type mark struct {
	admin *Admin
	link  *rabbit.Link
	line  *rabbit.Conn
	name  string
}

// leaveMark declares a mark. It is not a passive declaration that finds a mark of another connection: nodes of a cluster may know
// about a new queue later than others, but they never create it twice.
func (a *Admin) leaveMark(ctx context.Context, name string) (*mark, error) {
	link, err := a.takeLink(ctx)
	if err != nil {
		return nil, err
	}
	line, err := link.Conn(ctx)
	if err == nil {
		err = line.Declare(ctx, topology.Plan{Queues: []topology.Queue{{Name: name, Exclusive: true}}})
	}
	if err != nil {
		a.drop(link)
		return nil, err
	}
	return &mark{a, link, line, name}, nil
}

// remove deletes the mark.
func (m *mark) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), unlockLimit)
	defer cancel()
	if _, err := m.line.DeleteQueue(ctx, m.name, false); err != nil {
		m.admin.drop(m.link) // the mark ends with it
		return
	}
	m.admin.keepLink(m.link)
}

// CheckManagement returns an ErrOtherBroker if the management API is not that of the broker. It declares a queue that only its own
// connection can use, looks for it in the management API, and deletes it.
func (a *Admin) CheckManagement(ctx context.Context) error {
	m, err := a.leaveMark(ctx, tryPrefix+rabbit.NewID())
	if err != nil {
		return fmt.Errorf("check the management API: %w", err)
	}
	defer m.remove()
	for until := time.Now().Add(markLimit); ; {
		err := a.management.get(ctx, "/api/queues/%s/%s?columns=name", nil, m.name)
		switch {
		case err == nil:
			return nil
		case !missing(err):
			return fmt.Errorf("check the management API: %w", err)
		case !time.Now().Before(until):
			return fmt.Errorf("%w: %s does not show a queue that the virtual host %q of the broker has", ErrOtherBroker, a.management.base, a.management.vhost)
		}
		if err := rabbit.Pause(ctx, pollPause); err != nil {
			return err
		}
	}
}

// checkPlaces returns an error if both sides are the same virtual host, or if a management API is not that of its broker.
func (m *move) checkPlaces(ctx context.Context) error {
	if err := m.checkDifferentPlaces(ctx); err != nil {
		return err
	}
	if err := m.from.CheckManagement(ctx); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	if err := m.to.CheckManagement(ctx); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	return nil
}

// checkDifferentPlaces leaves the same mark on both sides, which is refused where it exists already.
func (m *move) checkDifferentPlaces(ctx context.Context) error {
	name := tryPrefix + rabbit.NewID()
	source, err := m.from.leaveMark(ctx, name)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	defer source.remove()
	target, err := m.to.leaveMark(ctx, name)
	switch {
	case declareCode(err) == resourceLocked:
		return ErrSamePlace
	case err != nil:
		return fmt.Errorf("target: %w", err)
	}
	target.remove()
	return nil
}
