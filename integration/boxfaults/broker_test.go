package boxfaults

import (
	"net"
	"strings"
	"testing"

	"github.com/rehop/rehop/integration/lab"
)

// broker is one that can be killed.
type broker interface {
	url() string
	settle() // what was declared survives a kill from here on
	kill()
	start()
}

// embedded is the embedded broker in a process of its own.
type embedded struct {
	t       testing.TB
	orders  orders
	process *process
}

func embeddedBroker(t testing.TB) broker {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	_ = ln.Close() // the broker needs the same address each time it starts
	e := &embedded{t: t, orders: orders{Role: "broker", Dir: t.TempDir(), Addr: addr}}
	e.start()
	return e
}

func (e *embedded) url() string { return "amqp://guest:guest@" + e.orders.Addr + "/" }

func (e *embedded) settle() {} // nothing is to be done

func (e *embedded) kill() {
	e.t.Helper()
	if !e.process.kill() {
		e.t.Fatal("the broker had ended before it was killed")
	}
}

func (e *embedded) start() {
	e.t.Helper()
	e.process = spawn(e.t, e.orders, nil)
}

// rabbit is a RabbitMQ that only this process uses.
type rabbit struct {
	t   testing.TB
	lab *lab.Rabbit
}

func rabbitBroker(t testing.TB) broker {
	t.Helper()
	return &rabbit{t, lab.Single(t)}
}

func (r *rabbit) url() string { return r.lab.URL }

func (r *rabbit) settle() { r.lab.Settle() }

func (r *rabbit) kill() {
	r.t.Helper()
	r.lab.Services("kill", strings.Join(r.lab.Nodes(), " "))
}

func (r *rabbit) start() {
	r.t.Helper()
	r.lab.Services("start", strings.Join(r.lab.Nodes(), " "))
}
