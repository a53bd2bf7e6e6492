package delivery

import (
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

// Layouts are scripts for all layouts except rehop's own, in the names of a fleet that uses them, and with
// waits that are short and failures that are many, so that a short run shows much.
func Layouts(seed uint64) []Script {
	const short = 300 * time.Millisecond
	with := func(name string, change func(*Script)) Script {
		s := NewScript(seed)
		s.Name, s.Share = name, 4
		change(&s)
		return s
	}
	usual := func(s *Script, l layout.Layout) {
		s.Layout, s.Usual, s.Steps = l, true, layouts.Must(l).Delays()
	}
	pubsub := func(s *Script) {
		s.Exchange, s.Queues = layouts.MasterExchange, []string{"billing@orders", "stock@orders", "mail@orders"}
	}
	dlx := func(s *Script) {
		s.Exchange, s.Queues = "order", []string{"order.pay", "order.ship", "order.mail"}
		s.KeepsUnrouted, s.RedeliveryFails = true, true
		s.MaxLength = 1_000_000 // else what a fault leaves standing would overflow, which is another matter
	}
	sneakers := func(s *Script) {
		s.Exchange, s.Queues = layouts.SneakersExchange, []string{"downloads", "thumbnails", "reports"}
	}
	enveloped := func(s *Script) {
		s.Exchange, s.Queues, s.Objects = "order.main.x", []string{"order.main.q", "bill.main.q", "stock.main.q"}, true
	}
	return []Script{
		with("PubSub", func(s *Script) {
			pubsub(s)
			usual(s, layout.PubSub{Delay: short})
		}),
		with("DLX", func(s *Script) {
			dlx(s)
			usual(s, layout.DLX{})
		}),
		with("DLXSteps", func(s *Script) {
			dlx(s)
			s.Layout = layout.DLX{}
		}),
		with("Tiers", func(s *Script) {
			// A wait between two tiers, one between the others, and Later beyond them.
			usual(s, layout.Tiers{Tiers: []time.Duration{short, 500 * time.Millisecond, time.Second}, Waits: []time.Duration{200 * time.Millisecond, 400 * time.Millisecond}})
		}),
		with("Sneakers", func(s *Script) {
			sneakers(s)
			s.Layout = layout.Sneakers{Delay: short, Document: true}
		}),
		with("SneakersReject", func(s *Script) {
			sneakers(s)
			usual(s, layout.Sneakers{Delay: short, Retries: 2, Reject: true})
			s.BrokerCounts = true
		}),
		with("Envelope", func(s *Script) {
			enveloped(s)
			usual(s, layout.Envelope{Delay: short, Retries: 3})
		}),
		with("EnvelopeQuorum", func(s *Script) {
			enveloped(s)
			s.Layout, s.QueueType = layout.Envelope{Delay: short}, layout.Quorum
		}),
	}
}

// LayoutScript is the script of this name in Layouts.
func LayoutScript(name string, seed uint64) (Script, error) {
	for _, s := range Layouts(seed) {
		if s.Name == name {
			return s, nil
		}
	}
	return Script{}, fmt.Errorf("no layout has a script of the name %q", name)
}
