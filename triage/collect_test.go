package triage

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
)

// A connection that Connect has replaced, and closed, is no fault: the service collects with the new one. A connection that is lost is.
func TestReplacedConnectionIsNoFault(t *testing.T) {
	for name, replaced := range map[string]bool{"replaced": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &broker.Server{Logger: slog.New(slog.DiscardHandler)}
				defer server.Close()
				open := func() *admin.Admin {
					t.Helper()
					a, err := admin.Open(t.Context(), admin.Config{URL: "amqp://guest:guest@embedded/", Dial: server.Dial})
					if err != nil {
						t.Fatal(err)
					}
					return a
				}
				now := open()
				s := &Service{config: ServiceConfig{Connect: func(context.Context) (*admin.Admin, error) { return now, nil }}}
				ended := make(chan error, 1)
				go func() { ended <- s.collectOnce(t.Context()) }()
				synctest.Wait() // it collects
				before := now
				if replaced {
					now = open()
					defer now.Close()
				}
				before.Close()
				if err := <-ended; (err == nil) != replaced {
					t.Errorf("got %v, want success %v", err, replaced)
				}
			})
		})
	}
}
