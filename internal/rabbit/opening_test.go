package rabbit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/topology"
)

// A session that is being opened when its context ends comes to an end before OpenSession returns, so that nothing is declared or consumed
// afterwards. A broker that does not answer is waited for no longer than openGrace.
func TestEndWhileOpening(t *testing.T) {
	for name, answers := range map[string]bool{"the broker answers": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const declare, declareOK = 10, 11
				asked, answer := make(chan struct{}, 1), make(chan struct{})
				b := &fakeBroker{method: func(p *fakePeer, channel, class, method uint16, _ []byte) bool {
					if class != 50 || method != declare {
						return false
					}
					asked <- struct{}{}
					go func() {
						<-answer
						p.send(channel, 50, declareOK, shortstr("q"), make([]byte, 8))
					}()
					return true
				}}
				link, p, _ := start(t, b)
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{}, 1)
				go func() {
					s, err := link.OpenSession(ctx, ConsumeOptions{Queue: "q", Tag: "tag", Plan: topology.Plan{Queues: []topology.Queue{{Name: "q"}}}}, 10)
					if (err == nil) != answers {
						t.Errorf("got session %v and error %v", s, err)
					}
					ended <- struct{}{}
				}()
				<-asked
				began := time.Now()
				cancel()
				synctest.Wait()
				if len(ended) > 0 {
					t.Fatal("it returned while the queue was being declared")
				}
				if answers {
					close(answer)
				}
				<-ended
				if took, most := time.Since(began), openGrace; took > most || answers && took > 0 {
					t.Errorf("it took %v, want at most %v", took, most)
				}
				if !answers {
					close(answer)
				}
				stop(link, p)
			})
		})
	}
}
