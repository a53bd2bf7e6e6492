package ports

import (
	"net"
	"slices"
	"strings"
	"testing"
)

// No two users of a block have the same port, and all ports are within it.
func TestPortsAreDistinct(t *testing.T) {
	const b = Block(20000)
	users := map[int]string{}
	use := func(port int, user string) {
		t.Helper()
		if other, ok := users[port]; ok {
			t.Errorf("port %d is that of %s and of %s", port, other, user)
		}
		if port < b.At(0) || port >= b.At(Size) {
			t.Errorf("port %d of %s is not in the block of %d ports from %d on", port, user, Size, b)
		}
		users[port] = user
	}
	for user, offset := range map[string]int{"claim": Claim, "postgres": Postgres, "pgbouncer": PgBouncer, "mariadb": MariaDB, "mysql": MySQL} {
		use(b.At(offset), user)
	}
	for release := range Releases {
		use(b.Epmd(release), "epmd")
		for node := range Node(4) {
			p := b.RabbitMQ(release, node)
			for _, port := range []int{p.AMQP, p.Management, p.Prometheus, p.Dist} {
				use(port, "a node of RabbitMQ")
			}
			if node == Single {
				use(p.AMQPS, "AMQPS")
			}
		}
	}
	for port := b.At(CtlFirst); port <= b.At(CtlLast); port++ {
		use(port, "rabbitmqctl")
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name               string
		wanted, remembered Block
		listening          []int
		want               Block
		fails              string
	}{
		{name: "the first block", want: 28600},
		{name: "the first in which nothing listens", listening: []int{28600, 28799, 22, 28899}, want: 28900},
		{name: "the remembered one", remembered: 30000, listening: []int{29999, 30100}, want: 30000},
		{name: "the remembered one was taken", remembered: 30000, listening: []int{30050}, want: 28600},
		{name: "the wanted one", wanted: 5000, remembered: 30000, want: 5000},
		{name: "the wanted one is taken", wanted: 5000, listening: []int{5099}, fails: "between 5000 and 5099 (REHOP_SERVICES_PORT)"},
		{name: "none", listening: every(28600, 32700, 100), fails: "no block of 100 free ports between 28600 and 32699"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Choose(c.wanted, c.remembered, c.listening)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("got error %v, want %q", err, c.fails)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("got %d, %v, want %d", got, err, c.want)
			}
		})
	}
}

func every(from, to, step int) (all []int) {
	for p := from; p < to; p += step {
		all = append(all, p)
	}
	return all
}

func TestParse(t *testing.T) {
	for text, want := range map[string]Block{"": 0, "1024": 1024, "28600": 28600, "65436": 65436} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q): got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"0", "1023", "65437", "-1", "x", "28600 "} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q): got %d, want an error", text, got)
		}
	}
}

func TestParseTable(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:6FB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0000000000000000 100 0 0 10 0
   1: 0100007F:A1B2 0100007F:6FB8 01 00000000:00000000 00:00000000 00000000     0        0 2 1 0000000000000000 20 4 30 10 -1
   2: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3
`
	got, err := parse(strings.NewReader(table))
	if want := []int{28600, 22}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// What really listens is found, and is accepted by; what does not is not.
func TestListening(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	listening, err := Listening()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(listening, port) {
		t.Errorf("port %d is not among those on which something listens: %v", port, listening)
	}
	if !Accepts(Loopback, port) {
		t.Errorf("port %d does not accept", port)
	}
	l.Close()
	if err := AwaitFree(Loopback, port, "nobody"); err != nil {
		t.Error(err)
	}
}
