package console

import (
	"container/list"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"
)

const (
	sessionCookie = "rehop-session"
	// sessionIdle and sessionLimit are the defaults of the options.
	sessionIdle  = 30 * time.Minute
	sessionLimit = 12 * time.Hour
	// maxSessions is how many there are at the same time. A login above it ends the session that was not used for the longest time.
	maxSessions = 1000
)

// sessions are the logged-in users. The browser has a random id, and the server only its hash.
type sessions struct {
	idle, limit time.Duration

	mu     sync.Mutex
	byHash map[[sha256.Size]byte]*list.Element // of *session
	recent list.List                           // the last used first
}

type session struct {
	hash        [sha256.Size]byte
	user        User
	began, used time.Time
}

func newSessions(idle, limit time.Duration) *sessions {
	return &sessions{idle: idle, limit: limit, byHash: make(map[[sha256.Size]byte]*list.Element)}
}

// begin returns the id of a new session.
func (s *sessions) begin(user User) (id string) {
	secret := make([]byte, 32)
	rand.Read(secret)
	id = base64.RawURLEncoding.EncodeToString(secret)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for last := s.recent.Back(); last != nil && (len(s.byHash) >= maxSessions || s.isOver(last.Value.(*session), now)); last = s.recent.Back() {
		s.remove(last)
	}
	hash := sha256.Sum256([]byte(id))
	s.byHash[hash] = s.recent.PushFront(&session{hash, user, now, now})
	return id
}

func (s *sessions) isOver(one *session, now time.Time) bool {
	return now.Sub(one.used) >= s.idle || now.Sub(one.began) >= s.limit
}

// user returns the user of a session, and counts as use of it.
func (s *sessions) user(id string) (User, bool) { return s.find(id, true) }

// lasts reports whether a session is not over. It does not prolong it.
func (s *sessions) lasts(id string) bool {
	_, lasts := s.find(id, false)
	return lasts
}

func (s *sessions) find(id string, use bool) (User, bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e, there := s.byHash[sha256.Sum256([]byte(id))]
	if !there {
		return User{}, false
	}
	found := e.Value.(*session)
	if s.isOver(found, now) {
		s.remove(e)
		return User{}, false
	}
	if use {
		found.used = now
		s.recent.MoveToFront(e)
	}
	return found.user, true
}

// end ends a session, if there is one with this id.
func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, there := s.byHash[sha256.Sum256([]byte(id))]; there {
		s.remove(e)
	}
}

// endOthers ends all sessions except one, and returns how many.
func (s *sessions) endOthers(id string) (n int) {
	kept := sha256.Sum256([]byte(id))
	s.mu.Lock()
	defer s.mu.Unlock()
	for hash, e := range s.byHash {
		if hash != kept {
			s.remove(e)
			n++
		}
	}
	return n
}

func (s *sessions) count() (n int) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.recent.Front(); e != nil; e = e.Next() {
		if !s.isOver(e.Value.(*session), now) {
			n++
		}
	}
	return n
}

// remove is called with mu held.
func (s *sessions) remove(e *list.Element) {
	delete(s.byHash, s.recent.Remove(e).(*session).hash)
}

// setCookie sets a cookie for the console's pages. An empty value removes it.
func (x *call) setCookie(name, value string, lasts time.Duration) {
	x.setCookieFor(name, value, lasts, http.SameSiteStrictMode)
}

// setCookieFor is setCookie with another rule for requests that begin at other sites.
func (x *call) setCookieFor(name, value string, lasts time.Duration, rule http.SameSite) {
	age := int(lasts.Seconds())
	if value == "" {
		age = -1
	}
	http.SetCookie(x.w, &http.Cookie{Name: name, Value: value, Path: x.console.options.Base, MaxAge: age, HttpOnly: true,
		SameSite: rule, Secure: x.console.options.Secure || x.r.TLS != nil})
}
