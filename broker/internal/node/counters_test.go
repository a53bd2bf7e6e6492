package node

import (
	"sync"
	"testing"
)

// Whatever happens meanwhile, the number of closed things is never larger than that of opened ones.
func TestChurn(t *testing.T) {
	n := &Node{}
	over := make(chan struct{})
	var churning sync.WaitGroup
	churning.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			n.Counters.queuesDeclared.Add(1)
			n.Counters.queuesCreated.Add(1)
			n.Counters.ConnectionsOpened.Add(1)
			n.Counters.ChannelsOpened.Add(1)
			n.Counters.ChannelsClosed.Add(1)
			n.Counters.ConnectionsClosed.Add(1)
			n.Counters.queuesDeleted.Add(1)
		}
	})
	for range 100_000 {
		c := n.Churn()
		if c.ConnectionsClosed > c.ConnectionsOpened || c.ChannelsClosed > c.ChannelsOpened || c.QueuesDeleted > c.QueuesCreated || c.QueuesCreated > c.QueuesDeclared {
			t.Errorf("got %+v", c)
			break
		}
	}
	close(over)
	churning.Wait()
}
