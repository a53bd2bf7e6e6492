package node

import (
	"sync"
	"testing"
)

// However much comes and goes meanwhile, never more is gone than has come.
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
			n.tally.queuesDeclared.Add(1)
			n.tally.queuesCreated.Add(1)
			n.tally.connectionsOpened.Add(1)
			n.tally.channelsOpened.Add(1)
			n.tally.channelsClosed.Add(1)
			n.tally.connectionsClosed.Add(1)
			n.tally.queuesDeleted.Add(1)
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
