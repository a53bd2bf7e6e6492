package layouts

import "testing"

func TestMayGrow(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		size, grown int
		want        bool
	}{
		{0, 16 * mib, true}, {0, 16*mib + 1, false}, {16 * mib, 16*mib + 1, false}, {16*mib + 1, 16*mib + 2, true},
		{100 * mib, 128 * mib, true}, {100 * mib, 128*mib + 1, false}, {129 * mib, 200 * mib, true},
	} {
		if got := mayGrow(c.size, c.grown); got != c.want {
			t.Errorf("from %d to %d bytes: got %t, want %t", c.size, c.grown, got, c.want)
		}
	}
}
