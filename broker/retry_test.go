package broker_test

import (
	"testing"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/internal/wire"
)

// A delivery that is unacked when the server is closed has failed, and the next server delays it.
func TestDelayedRetryOfHeld(t *testing.T) {
	dir := t.TempDir()
	server := start(t, &broker.Server{Dir: dir})
	p := enter(t, dial(t, server))
	p.sendMethods(1, &wire.QueueDeclare{Queue: "q", Durable: true, Arguments: wire.Table{{Key: "x-queue-type", Value: "quorum"},
		{Key: "x-delayed-retry-type", Value: "failed"}, {Key: "x-delayed-retry-min", Value: time.Hour.Milliseconds()}}}, &wire.ConfirmSelect{})
	expect[*wire.QueueDeclareOK](p)
	expect[*wire.ConfirmSelectOK](p)
	for _, body := range []string{"held", "ready"} {
		p.publish("", "q", wire.Properties{}, []byte(body))
		expect[*wire.BasicAck](p)
	}
	p.sendMethods(1, &wire.BasicGet{Queue: "q"})
	expect[*wire.BasicGetOK](p)
	closed := make(chan error, 1)
	go func() { closed <- server.Close() }()
	expect[*wire.ConnectionClose](p)
	p.sendMethods(0, &wire.ConnectionCloseOK{})
	if err := <-closed; err != nil {
		t.Fatal(err)
	}

	engine, err := access.Start(start(t, &broker.Server{Dir: dir}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := engine.Vhost("/").Queue("q").Status(); s.Ready != 1 || s.Delayed != 1 || s.NextReady > time.Hour {
		t.Errorf("got %d ready and %d delayed messages, the next in %s, want one of each, within an hour", s.Ready, s.Delayed, s.NextReady)
	}
}
