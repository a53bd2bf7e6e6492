package serve

import (
	"container/list"
	"net"
	"sync"
	"time"
)

const (
	// writeTimeout is how long a client of HTTP may read nothing of what it has asked for. It is that of backups, too.
	writeTimeout = time.Minute
	// writePiece is how much is written within that time.
	writePiece = 64 << 10
)

// door is a listener for HTTP whose clients hold no connection open that they do not use: strangers can connect to it, and descriptors are
// needed for the clients of the broker. If there are too many connections, one more ends the one that was not used for the longest time.
type door struct {
	net.Listener
	limit int

	mu   sync.Mutex
	open list.List // of *visitor, the last used at the end
}

func newDoor(listener net.Listener, limit int) *door {
	return &door{Listener: listener, limit: limit}
}

func (d *door) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	v := &visitor{Conn: conn, door: d}
	if displaced := d.enter(v); displaced != nil {
		_ = displaced.Conn.Close() // its server notices the end
	}
	return v, nil
}

func (d *door) enter(v *visitor) (displaced *visitor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open.Len() >= d.limit {
		displaced = d.open.Remove(d.open.Front()).(*visitor)
		displaced.place = nil
	}
	v.place = d.open.PushBack(v)
	return displaced
}

func (d *door) used(v *visitor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.place != nil {
		d.open.MoveToBack(v.place)
	}
}

func (d *door) leave(v *visitor) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.place != nil {
		d.open.Remove(v.place)
		v.place = nil
	}
}

// visitor is a connection through a door.
type visitor struct {
	net.Conn
	door  *door
	place *list.Element // nil: it has left, or was displaced; the door's mutex guards it
}

func (v *visitor) Read(b []byte) (int, error) {
	n, err := v.Conn.Read(b)
	if n > 0 {
		v.door.used(v)
	}
	return n, err
}

// Write waits a limited time for each piece, so that a client that reads gets a long answer, however long it takes.
func (v *visitor) Write(b []byte) (written int, err error) {
	for {
		piece := b[written:min(written+writePiece, len(b))]
		if err := v.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return written, err
		}
		n, err := v.Conn.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		v.door.used(v)
		if written == len(b) {
			return written, nil
		}
	}
}

// CloseWrite lets the client read the end of an answer before the connection is closed.
func (v *visitor) CloseWrite() error {
	if half, ok := v.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (v *visitor) Close() error {
	v.door.leave(v)
	return v.Conn.Close()
}
