package broker_test

import ("testing";"math/rand/v2";"os";"fmt")

func TestZZ(t *testing.T) {
	for seed := uint64(0); seed < 20000; seed++ {
		r := rand.New(rand.NewPCG(seed, 2))
		b := make([]byte, 20+r.IntN(600))
		for i := range b { b[i] = byte(r.IntN(256)) }
		os.WriteFile("/tmp/zzseed", []byte(fmt.Sprint(seed)), 0o644)
		dice := dice{b}
		frames := append(login("guest", "guest"), openChannels(3)...)
		for len(dice.left) > 0 { frames = dice.frames(frames) }
		converse(t, frames)
		if t.Failed() { t.Fatalf("seed %d", seed) }
	}
}
