package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/broker/internal/store"
	"github.com/rehop/rehop/broker/internal/store/storetest"
)

// stage is a queue with a clock that the test sets. It handles the effects of the queue.
type stage struct {
	t       testing.TB
	q       *Queue
	budget  *Budget
	now     time.Duration
	log     *store.Store // where stored messages are
	names   map[*Message]string
	made    []string // deliveries: consumer, colon, message
	settled []string
	due     bool            // dead letters have to be taken
	torn    map[string]bool // messages that cannot be read
}

// plan configures a stage.
type plan struct {
	kind         Type
	maxPriority  uint8
	singleActive bool
	rules        Rules
	settings     func(*Settings)
	budget       int64
}

func newStage(t testing.TB, p plan) *stage {
	s := &stage{t: t, now: time.Hour, names: make(map[*Message]string), torn: make(map[string]bool), budget: &Budget{Limit: p.budget}}
	settings := Unlimited()
	if p.settings != nil {
		p.settings(&settings)
	}
	if p.kind == "" {
		p.kind = Classic
	}
	s.q = New(Config{ID: 1, Type: p.kind, Clock: func() time.Duration { return s.now }, Budget: s.budget, MaxPriority: p.maxPriority,
		SingleActive: p.singleActive, Rules: p.rules, Wake: func() {}}, settings)
	s.q.Touch()
	t.Cleanup(s.q.Stop)
	return s
}

// openLog gives the stage a log for stored messages.
func (s *stage) openLog() {
	s.t.Helper()
	log, err := store.Open(storetest.NewDisk(), store.Options{Sync: store.SyncNever, DiskReserve: -1})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = log.Close() })
	err = log.Recover(nil, func(store.Found) *store.Message { return nil }, func(*store.Message, store.Hold) {})
	if err != nil {
		s.t.Fatal(err)
	}
	s.log = log
}

// parcel is a message to push.
type parcel struct {
	name     string
	size     int
	priority uint8
	ttl      time.Duration // negative: none
	stored   bool
}

func (s *stage) message(p parcel) *Message {
	c := &store.Content{Key: p.name, Body: make([]byte, p.size)}
	m := NewMessage(c, 1)
	m.Priority, m.HasPriority = p.priority, p.priority > 0
	s.budget.Admit(m)
	s.names[m] = p.name
	if p.stored {
		var b store.Batch
		b.Publish(&m.Message, *c, store.Meta{TTL: store.NoTTL, Priority: p.priority}, []store.QueueID{1})
		s.log.Commit(&b)
	}
	return m
}

func (s *stage) send(p parcel) {
	s.t.Helper()
	s.after(s.q.Push(s.message(p), p.ttl))
}

// push appends plain messages.
func (s *stage) push(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.send(parcel{name: name, ttl: -1})
	}
}

// after handles the effects of a call.
func (s *stage) after(fx Effects) {
	s.t.Helper()
	for {
		for _, m := range fx.Settled {
			s.settled = append(s.settled, s.names[m])
		}
		s.due = s.due || fx.Dead
		if !fx.Load {
			return
		}
		fx = s.q.Loaded(s.load())
	}
}

func (s *stage) load() map[*Message]bool {
	s.t.Helper()
	unreadable := make(map[*Message]bool)
	for _, m := range s.q.Missing() {
		if s.torn[s.names[m]] {
			unreadable[m] = true
			continue
		}
		c, err := s.log.Read(&m.Message)
		if err != nil {
			s.t.Fatalf("read %s: %v", s.names[m], err)
		}
		s.budget.Load(m, &c)
	}
	return unreadable
}

// get takes the first message.
func (s *stage) get(noAck bool) (it Item, found bool, left int) {
	s.t.Helper()
	it, content, left, fx := s.q.Get(noAck)
	for content == nil && fx.Load {
		s.after(fx)
		it, content, left, fx = s.q.Get(noAck)
	}
	s.after(fx)
	if content != nil && content.Key != s.names[it.Message] {
		s.t.Errorf("get: got the content of %s, want that of %s", content.Key, s.names[it.Message])
	}
	return it, content != nil, left
}

// takeAllDead takes all dead letters, and returns their names and reasons.
func (s *stage) takeAllDead() (all []string) {
	s.t.Helper()
	s.due = false
	for lot := s.q.TakeDead(false); len(lot) > 0; lot = s.q.TakeDead(true) {
		for _, d := range lot {
			all = append(all, s.names[d.Item.Message]+" "+string(d.Reason))
		}
		s.q.DeadLettersDone(lot)
	}
	s.after(s.q.Pump())
	return all
}

// pass advances the time, and wakes the queue.
func (s *stage) pass(d time.Duration) {
	s.t.Helper()
	s.now += d
	fx, _ := s.q.Tick()
	s.after(fx)
}

func (s *stage) ready() string {
	var all []string
	for _, it := range s.q.Peek(1 << 20) {
		all = append(all, s.names[it.Message])
	}
	return strings.Join(all, " ")
}

func (s *stage) wantReady(want string) {
	s.t.Helper()
	if got := s.ready(); got != want {
		s.t.Errorf("ready: got %q, want %q", got, want)
	}
}

// wantMade compares the deliveries since the last call.
func (s *stage) wantMade(want string) {
	s.t.Helper()
	if got := strings.Join(s.made, " "); got != want {
		s.t.Errorf("deliveries: got %q, want %q", got, want)
	}
	s.made = nil
}

func (s *stage) wantDead(want ...string) {
	s.t.Helper()
	if got := s.takeAllDead(); !slices.Equal(got, want) {
		s.t.Errorf("dead letters: got %q, want %q", got, want)
	}
}

// taker is a consumer with some room.
type taker struct {
	Consumer
	stage *stage
	room  int
	held  []Item
}

func (k *taker) Deliver(it Item, content *store.Content) bool {
	if k.room == 0 {
		return false
	}
	k.room--
	name := k.stage.names[it.Message]
	if content.Key != name {
		k.stage.t.Errorf("delivery of %s: got the content of %s", name, content.Key)
	}
	if !k.NoAck {
		k.held = append(k.held, it)
	}
	k.stage.made = append(k.stage.made, k.Tag+":"+name)
	return true
}

// join adds a consumer, which gets messages at once.
func (s *stage) join(tag string, room int, how func(*Consumer)) *taker {
	s.t.Helper()
	k := &taker{stage: s, room: room}
	k.Consumer = Consumer{Sink: k, Tag: tag}
	if how != nil {
		how(&k.Consumer)
	}
	if !s.q.Subscribe(&k.Consumer) {
		s.t.Fatalf("consumer %s was refused", tag)
	}
	s.after(s.q.Resume(&k.Consumer))
	return k
}

func (k *taker) resume(room int) {
	k.stage.t.Helper()
	k.room += room
	k.stage.after(k.stage.q.Resume(&k.Consumer))
}

// take removes the messages with these names from the consumer and returns them in that order.
func (k *taker) take(names ...string) (items []Item) {
	k.stage.t.Helper()
	for _, name := range names {
		at := slices.IndexFunc(k.held, func(it Item) bool { return k.stage.names[it.Message] == name })
		if at < 0 {
			k.stage.t.Fatalf("%s does not hold %s", k.Tag, name)
		}
		items = append(items, k.held[at])
		k.held = slices.Delete(k.held, at, at+1)
	}
	return items
}

// giveBack requeues messages on request of the client.
func (k *taker) giveBack(names ...string) {
	k.stage.t.Helper()
	k.stage.after(k.stage.q.Return(k.take(names...), true, true))
}

// lose requeues messages of a client that has disconnected.
func (k *taker) lose(names ...string) {
	k.stage.t.Helper()
	k.stage.after(k.stage.q.Return(k.take(names...), false, true))
}

// wantBooks compares the counters of the queue with the expected values.
func (s *stage) wantBooks(ready, unacked int, bytes, held int64) {
	s.t.Helper()
	st := s.q.Status()
	got := fmt.Sprintf("%d ready with %d bytes, %d unacked with %d bytes", st.Ready, st.ReadyBytes, st.Unacked, st.UnackedBytes)
	want := fmt.Sprintf("%d ready with %d bytes, %d unacked with %d bytes", ready, bytes, unacked, held)
	if got != want {
		s.t.Errorf("books: got %s, want %s", got, want)
	}
}
