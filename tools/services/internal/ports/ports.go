// Package ports chooses the block of TCP ports of a state directory, and knows who has which port within it.
package ports

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Size is how many consecutive ports a state directory has.
const Size = 100

// Where blocks are looked for: below the kernel's ephemeral range (32768 and up), so that no outgoing connection of some other
// process can sit on one of the ports.
const (
	first = 28600
	last  = 32600
)

// Offsets within a block.
const (
	Claim     = 0 // listens for as long as the block is in use
	Postgres  = 1
	PgBouncer = 2
	MariaDB   = 3
	MySQL     = 4

	rabbitMQ   = 5  // the first of the first release
	perRelease = 18 // ports of one release: see RabbitMQ
	Releases   = 3  // for which there is room

	// CtlFirst is the beginning of the range in which rabbitmqctl listens, itself a short-lived Erlang node.
	CtlFirst = 60
	CtlLast  = 99
)

// Named is a port, and what is spoken there.
type Named struct {
	Protocol string
	Port     int
}

// Block is the first port of a block; 0 stands for none.
type Block int

// At is the port with an offset.
func (b Block) At(offset int) int { return int(b) + offset }

// Node is which of a release's RabbitMQ nodes a port belongs to.
type Node int

// Single is the single node of a release. Others are those of the cluster, from 1 on.
const Single Node = 0

// RabbitMQ are the ports of one node.
type RabbitMQ struct {
	AMQP, Management, Prometheus, Dist int
	AMQPS                              int // of the single node alone
}

// Epmd is the port of a release's port mapper. Releases are counted from 0 on.
func (b Block) Epmd(release int) int { return b.At(rabbitMQ + release*perRelease) }

// RabbitMQ are the ports of a node of a release.
func (b Block) RabbitMQ(release int, node Node) RabbitMQ {
	p := b.Epmd(release) + 1 + 4*int(node)
	r := RabbitMQ{AMQP: p, Management: p + 1, Prometheus: p + 2, Dist: p + 3}
	if node == Single {
		r.AMQPS = b.Epmd(release) + perRelease - 1
	}
	return r
}

// Parse reads a block that a user wants; 0 if text is empty.
func Parse(text string) (Block, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1024 || n > 65536-Size {
		return 0, fmt.Errorf("REHOP_SERVICES_PORT must be a port between 1024 and %d: %s", 65536-Size, text)
	}
	return Block(n), nil
}

// Choose returns the wanted block, or else the remembered one, or else the first that is free. Nothing may listen in it.
func Choose(wanted, remembered Block, listening []int) (Block, error) {
	if wanted != 0 {
		if !wanted.free(listening) {
			return 0, fmt.Errorf("something listens on a port between %d and %d (REHOP_SERVICES_PORT)", wanted, wanted.At(Size-1))
		}
		return wanted, nil
	}
	if remembered != 0 && remembered.free(listening) {
		return remembered, nil
	}
	for b := Block(first); b <= last; b += Size {
		if b.free(listening) {
			return b, nil
		}
	}
	return 0, fmt.Errorf("no block of %d free ports between %d and %d", Size, first, last+Size-1)
}

func (b Block) free(listening []int) bool {
	for _, p := range listening {
		if p >= b.At(0) && p < b.At(Size) {
			return false
		}
	}
	return true
}

// Listening are the TCP ports of this machine on which something listens.
func Listening() ([]int, error) {
	var all []int
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) && name == "/proc/net/tcp6" {
			continue // a machine without IPv6
		}
		if err != nil {
			return nil, fmt.Errorf("find out which ports are in use: %w", err)
		}
		found, err := parse(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("find out which ports are in use: %s: %w", name, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// parse reads a table of sockets as /proc/net/tcp has it.
func parse(table io.Reader) ([]int, error) {
	const listen = "0A"
	var all []int
	for lines := bufio.NewScanner(table); ; {
		if !lines.Scan() {
			return all, lines.Err()
		}
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[3] != listen {
			continue
		}
		_, hex, _ := strings.Cut(fields[1], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		if err != nil {
			return nil, fmt.Errorf("address %s: %w", fields[1], err)
		}
		all = append(all, int(port))
	}
}

// Loopback is where all servers listen but those that have a network namespace.
const Loopback = "127.0.0.1"

// Accepts reports whether a TCP connection to the port of a host succeeds.
func Accepts(host string, port int) bool {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, strconv.Itoa(port)), 5*time.Second)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// AwaitFree returns when nobody listens on the port. What is left of a server that was killed may do so for a moment. After that
// it fails: another process would soon be taken for the server.
func AwaitFree(host string, port int, server string) error {
	for range 100 {
		if !Accepts(host, port) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("another process listens on port %d, which is that of %s", port, server)
}
