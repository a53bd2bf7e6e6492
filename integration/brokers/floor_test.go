package brokers

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"testing"
)

// The floor is the least that a broker in a process of its own can do, which syncs before it confirms: it knows no AMQP, takes so many
// bytes, writes and syncs them, and answers with as many bytes as a confirm has. No broker can confirm one by one faster on this machine.

// floorIn names the variable that makes this program the floor, with its value as directory, and floorSize the one with the size of a
// message.
const (
	floorIn   = "REHOP_BENCH_FLOOR"
	floorSize = "REHOP_BENCH_FLOOR_SIZE"
	floorName = "bare disk behind a socket"
	ackSize   = 21 // a frame with basic.ack
)

func beFloor(dir string) int {
	n, err := strconv.Atoi(os.Getenv(floorSize))
	if err == nil {
		err = serveFloor(dir, n)
	}
	if err != nil {
		log.Print(err)
		return 1
	}
	return 0
}

// serveFloor serves one client after the other, for ever.
func serveFloor(dir string, n int) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	l, err := disks[1].open(dir)
	if err != nil {
		return err
	}
	record, ack := make([]byte, n), make([]byte, ackSize)
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		for {
			if _, err := io.ReadFull(conn, record); err != nil {
				break // the client is done
			}
			if err := l.append(record); err != nil {
				return err
			}
			if _, err := conn.Write(ack); err != nil {
				break
			}
		}
		_ = conn.Close()
	}
}

// floor is that process.
type floor struct{ *child }

func startFloor(t *testing.T) floor {
	t.Helper()
	f := floor{&child{dir: t.TempDir(), env: []string{floorSize + "=" + strconv.Itoa(*size+recordOverhead)}, role: floorIn}}
	f.begin(t)
	return f
}

// publish sends n messages one by one.
func (f floor) publish(n int) (m measure, err error) {
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	message, ack := make([]byte, *size+recordOverhead), make([]byte, ackSize)
	exchange := func() error {
		if _, err := conn.Write(message); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, ack)
		return err
	}
	if _, err := oneAfterTheOther(warmup, exchange); err != nil {
		return m, err
	}
	return oneAfterTheOther(n, exchange)
}
