// Package fleets has rehop share queues with programs in other languages that retry in ways of their own: either side declares, fails,
// gives up and replays what the other one has published or failed.
package fleets

import (
	"testing"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

func TestMain(m *testing.M) { kit.Main(m, 14) }

func TestFleets(t *testing.T) {
	for _, f := range fleets() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			f.library.Require(t)
			for _, declares := range []string{"program", "rehop"} {
				t.Run(declares+" first", func(t *testing.T) {
					t.Parallel()
					lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
						first, second := side(startProgram(t, f, r)), side(startRehop(t, f, r))
						if declares == "rehop" {
							first, second = second, first
						}
						newMeeting(t, f, r, first, second).play()
					})
				})
			}
		})
	}
}
