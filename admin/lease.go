package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// ErrBusy: another command or process lists, replays, discards, exports or migrates messages of the same queue, and did not finish within 5 s.
// Nothing was read or changed: call again later. If the other process was killed, the broker notices within seconds.
var ErrBusy = errors.New("the queue is in use by another command")

const (
	// leaseWait is how long a sweep waits until another sweep of the same queue ends. Listing usually takes less.
	leaseWait  = 5 * time.Second
	leasePause = 50 * time.Millisecond
)

// lease is the right to read a queue, which one sweep at a time has. It is an exclusive queue, which the broker deletes with the connection. A
// migration of the queue uses the same one.
type lease struct {
	admin *Admin
	link  *rabbit.Link
	line  *rabbit.Conn // of the link, with which the lease ends
	name  string
}

// leaseOf gets the right to read a queue, and waits up to leaseWait for it. The lease has its own connection.
func (a *Admin) leaseOf(ctx context.Context, queue string) (*lease, error) {
	link, err := a.takeLink(ctx)
	if err != nil {
		return nil, err
	}
	line, err := link.Conn(ctx)
	if err != nil {
		a.drop(link)
		return nil, fmt.Errorf("reserve queue %q: %w", queue, err)
	}
	l := &lease{admin: a, link: link, line: line, name: layouts.LockQueue(queue)}
	for until := time.Now().Add(leaseWait); ; {
		err := line.Declare(ctx, topology.Plan{Queues: []topology.Queue{{Name: l.name, Exclusive: true}}})
		switch {
		case err == nil:
			return l, nil
		case declareCode(err) != resourceLocked:
			err = fmt.Errorf("reserve queue %q: %w", queue, err)
		case !time.Now().Before(until):
			err = fmt.Errorf("%w: another command or process lists, replays, discards, exports or migrates messages of queue %q; "+
				"wait until it has ended, and try again. If it was killed, the broker notices within seconds", ErrBusy, queue)
		default:
			if err = rabbit.Pause(ctx, leasePause); err == nil {
				continue
			}
		}
		a.keepLink(link)
		return nil, err
	}
}

// end lets others read the queue.
func (l *lease) end() {
	ctx, cancel := context.WithTimeout(context.Background(), unlockLimit)
	defer cancel()
	if _, err := l.line.DeleteQueue(ctx, l.name, false); err != nil {
		l.admin.drop(l.link) // the lease ends with it, and the broker requeues all messages that were read
		return
	}
	l.admin.keepLink(l.link)
}

// maxIdle is how many connections are kept for the next sweeps.
const maxIdle = 2

// takeLink returns a connection that is not in use.
func (a *Admin) takeLink(ctx context.Context) (*rabbit.Link, error) {
	for {
		a.mu.Lock()
		if a.closed {
			a.mu.Unlock()
			return nil, rabbit.ErrClosed
		}
		n := len(a.idle)
		if n == 0 {
			link := rabbit.NewLink("sweep", a.options, func(rabbit.State, error) {})
			a.links[link] = struct{}{}
			a.mu.Unlock()
			if err := link.FirstTry(ctx); err != nil {
				a.drop(link)
				return nil, fmt.Errorf("open a connection to read with: %w", err)
			}
			return link, nil
		}
		link := a.idle[n-1]
		a.idle = a.idle[:n-1]
		a.mu.Unlock()
		if state, _ := link.State(); state == rabbit.Open {
			return link, nil
		}
		a.drop(link)
	}
}

// keepLink keeps a connection for the next call of takeLink.
func (a *Admin) keepLink(link *rabbit.Link) {
	a.mu.Lock()
	keep := !a.closed && len(a.idle) < maxIdle
	if keep {
		a.idle = append(a.idle, link)
	}
	a.mu.Unlock()
	if !keep {
		a.drop(link)
	}
}

func (a *Admin) drop(link *rabbit.Link) {
	a.mu.Lock()
	delete(a.links, link)
	a.mu.Unlock()
	link.Close()
}

// closeLinks closes all connections of sweeps, which ends the sweeps.
func (a *Admin) closeLinks() {
	a.mu.Lock()
	a.closed = true
	links := a.links
	a.links, a.idle = nil, nil
	a.mu.Unlock()
	for link := range links {
		link.Close()
	}
}
