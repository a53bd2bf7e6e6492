package node

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/throttle"
)

// Peer is where a client connects from.
type Peer struct {
	address   netip.Addr // invalid if it has no IP address
	inProcess bool
	onMachine bool
}

// PeerOf returns the peer with an address. A pipe is a connection within the process.
func PeerOf(address net.Addr) Peer {
	switch a := address.(type) {
	case *net.TCPAddr:
		ip := a.AddrPort().Addr().Unmap()
		return Peer{address: ip, onMachine: ip.IsLoopback()}
	case *net.UnixAddr:
		return Peer{onMachine: true}
	}
	inside := address != nil && address.Network() == "pipe"
	return Peer{inProcess: inside, onMachine: inside}
}

// PeerAt returns the peer of an HTTP request: at an IP address and port, on a connection to the local address.
func PeerAt(remote string, local net.Addr) Peer {
	if local != nil && local.Network() != "tcp" {
		return PeerOf(local)
	}
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return Peer{}
	}
	return PeerOf(net.TCPAddrFromAddrPort(peer))
}

// Admits reports whether a user may log in from there.
func (p Peer) Admits(u *User) bool {
	return (p.onMachine || !u.LoopbackOnly) && (p.inProcess || !u.InProcess)
}

// InProcess reports whether the client is in this process.
func (p Peer) InProcess() bool { return p.inProcess }

// String is the address for logs.
func (p Peer) String() string {
	switch {
	case p.inProcess:
		return "this process"
	case p.address.IsValid():
		return p.address.String()
	}
	return "local socket"
}

// The errors of a login.
var (
	ErrLogin        = errors.New("the user does not exist, or the password is wrong")
	ErrLoopbackOnly = errors.New("the user can log in only from this machine")
)

// ThrottledError is the error of a login that is refused, whatever its password is, after too many failed ones.
type ThrottledError struct{ After time.Duration }

func (e *ThrottledError) Error() string {
	return fmt.Sprintf("too many failed logins from this address; try again in %v", e.Seconds())
}

// Seconds is the wait, rounded up to whole seconds.
func (e *ThrottledError) Seconds() time.Duration {
	return (e.After + time.Second - 1).Truncate(time.Second)
}

// maxPassword is the longest password in bytes. No longer one is hashed.
const maxPassword = 4096

// Login returns the user if the password is right. Connections within the process are not throttled.
func (n *Node) Login(from Peer, name, password string) (*User, error) {
	u, err := n.checkLogin(from, name, password)
	if from.inProcess {
		return u, err
	}
	if wait := n.logins.Decide(throttle.Source(from.address), name, password, err == nil); wait > 0 {
		n.logThrottled(from, name, wait)
		return nil, &ThrottledError{wait}
	}
	return u, err
}

// checkLogin takes the same time if the user does not exist.
func (n *Node) checkLogin(from Peer, name, password string) (*User, error) {
	u := n.User(name)
	known := u
	if u == nil {
		known = &User{Hash: strings.Repeat("A", base64.StdEncoding.EncodedLen(4+sha256.Size))}
	}
	right := len(password) <= maxPassword && known.knows(password) && u != nil
	switch {
	case !right, u.InProcess && !from.Admits(u):
		return nil, ErrLogin
	case !from.Admits(u):
		return nil, ErrLoopbackOnly
	}
	return u, nil
}

// logEvery is how often throttled logins are logged.
const logEvery = time.Second

// longestName is how much of a user's name is logged, in bytes: clients can send long ones.
const longestName = 255

func (n *Node) logThrottled(from Peer, user string, wait time.Duration) {
	if dropped, due := n.throttled.due(); due {
		user = strings.ToValidUTF8(user[:min(len(user), longestName)], "\uFFFD")
		n.Log.Warn("login throttled", "user", user, "from", from.String(), "retry_in", wait.Round(time.Millisecond), "not_logged", dropped)
	}
}

// sparseLog limits how often something is logged.
type sparseLog struct {
	mu      sync.Mutex
	last    time.Time
	dropped int
}

// due reports whether an event is logged, and how many before it were not.
func (s *sparseLog) due() (dropped int, due bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.IsZero() && now.Sub(s.last) < logEvery {
		s.dropped++
		return 0, false
	}
	dropped, s.dropped, s.last = s.dropped, 0, now
	return dropped, true
}
