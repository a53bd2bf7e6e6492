package mgmt

import (
	"testing"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
)

func TestRates(t *testing.T) {
	var s sampler
	q := new(node.Queue)
	began := time.Now()
	for _, step := range []struct {
		after     time.Duration
		published float64
		want      float64
	}{
		{0, 10, 0},
		{500 * time.Millisecond, 20, 0}, // too soon for a second sample
		{2 * time.Second, 30, 10},
		{2500 * time.Millisecond, 1000, 10},
		{4 * time.Second, 130, 50},
	} {
		now := sample{at: began.Add(step.after)}
		now.figures[published], now.figures[ready] = step.published, step.published
		got := s.note(q, now)
		if got[published] != step.want || got[ready] != step.want {
			t.Errorf("after %v with %v published: got the rates %v and %v, want %v", step.after, step.published, got[published], got[ready], step.want)
		}
	}
}

func TestRatesAreForgotten(t *testing.T) {
	var s sampler
	began := time.Now()
	for range 100 {
		s.note(new(node.Queue), sample{at: began})
	}
	s.note(new(node.Queue), sample{at: began.Add(sampleLife + time.Second)})
	if len(s.histories) != 1 {
		t.Errorf("%d histories, want 1: the others were not asked for in %v", len(s.histories), sampleLife)
	}
}
