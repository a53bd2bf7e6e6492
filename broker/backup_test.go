package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/brokertest"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/broker/internal/node"
)

// TestBackupUnderLoad backs up a server while clients publish, ack, reject and delay messages and change the topology, users
// and policies. Each backup is restored and compared with what the clients know.
func TestBackupUnderLoad(t *testing.T) {
	server := &broker.Server{Dir: t.TempDir(), Logger: quiet(), MessageCache: 1 << 20}
	if _, err := brokertest.OpenWithLog(server, brokertest.Log{SegmentSize: 64 << 10}); err != nil {
		t.Fatal(err)
	}
	l := newLoad(t, server)
	l.start()
	for round := range 4 {
		l.await(200)
		before := l.snapshot()
		w, removed := &pacedWriter{load: l}, l.engine.Store.Stats().Removed
		if err := server.Backup(t.Context(), w); err != nil {
			t.Fatalf("round %d: Backup: %v", round, err)
		}
		l.audits.removed += int(l.engine.Store.Stats().Removed - removed)
		l.audit(&w.Buffer, before, l.snapshot())
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
	l.stop()
	if err := server.Check(); err != nil {
		t.Error(err)
	}
	shut(t, server)
	if l.audits.settled == 0 || l.audits.due < 500 || l.audits.queues == 0 || l.audits.gone == 0 || l.audits.removed == 0 {
		t.Errorf("compared %+v, want some of each: this test shows nothing", l.audits)
	}
	t.Logf("compared %+v", l.audits)
}

// load is clients of a server, and what they know.
type load struct {
	t       *testing.T
	server  *broker.Server
	engine  *node.Node
	stopped context.CancelFunc
	ctx     context.Context
	clients sync.WaitGroup
	conns   []*amqp.Connection

	mu        sync.Mutex
	changed   *sync.Cond
	books     books
	confirms  int
	audits    audits
	published map[string]bool
}

// books is what the clients know at a moment.
type books struct {
	confirmed map[string]bool // messages
	answered  map[string]bool // messages whose ack was sent
	settled   map[string]bool // messages whose ack the server has processed
	declared  map[string]bool // queues
	deleting  map[string]bool // queues whose delete was sent
	deleted   map[string]bool // queues
	setting   int             // of the user and the policy
}

// audits is how much was compared.
type audits struct {
	due, settled, queues, gone int
	removed                    int // segments during backups
}

func newLoad(t *testing.T, server *broker.Server) *load {
	engine, err := access.Start(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := &load{t: t, server: server, engine: engine.Node, published: make(map[string]bool)}
	l.changed = sync.NewCond(&l.mu)
	l.books = books{make(map[string]bool), make(map[string]bool), make(map[string]bool), make(map[string]bool), make(map[string]bool), make(map[string]bool), 0}
	l.ctx, l.stopped = context.WithCancel(t.Context())
	return l
}

func (l *load) snapshot() books {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.books
	for _, m := range []*map[string]bool{&b.confirmed, &b.answered, &b.settled, &b.declared, &b.deleting, &b.deleted} {
		*m = maps.Clone(*m)
	}
	return b
}

// do changes the books.
func (l *load) do(change func(*books)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.books)
	l.changed.Broadcast()
}

// await waits for this number of confirms.
func (l *load) await(confirms int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for want := l.confirms + confirms; l.confirms < want && l.ctx.Err() == nil; {
		l.changed.Wait()
	}
}

func (l *load) fail(what string, err error) {
	if l.ctx.Err() == nil {
		l.t.Errorf("%s: %v", what, err)
		l.stopped()
		l.do(func(*books) {})
	}
}

func (l *load) channel() *amqp.Channel {
	l.t.Helper()
	conn, err := amqp.DialConfig("amqp://guest:guest@localhost/", amqp.Config{Dial: func(network, addr string) (net.Conn, error) {
		return l.server.Dial(context.Background(), network, addr)
	}})
	if err != nil {
		l.t.Fatal(err)
	}
	l.conns = append(l.conns, conn)
	ch, err := conn.Channel()
	if err != nil {
		l.t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		l.t.Fatal(err)
	}
	return ch
}

// The queues: work is consumed; its rejected messages go to dead, and those of later expire to work; nobody consumes keep,
// and delay lasts for longer than the test.
func (l *load) start() {
	ch := l.channel()
	dead := func(to string, more amqp.Table) amqp.Table {
		args := amqp.Table{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": to}
		maps.Copy(args, more)
		return args
	}
	for name, args := range map[string]amqp.Table{
		"work":  dead("dead", amqp.Table{"x-queue-type": "quorum"}),
		"dead":  nil,
		"keep":  nil,
		"later": dead("work", amqp.Table{"x-message-ttl": int32(20)}),
		"delay": dead("work", amqp.Table{"x-message-ttl": int32(3_600_000)}),
	} {
		if _, err := ch.QueueDeclare(name, true, false, false, false, args); err != nil {
			l.t.Fatal(err)
		}
	}
	publishers := make([]*amqp.Channel, 3)
	for i := range publishers {
		publishers[i] = l.channel()
	}
	consumer, declarer := l.channel(), l.channel()
	for i, ch := range publishers {
		l.clients.Go(func() { l.publish(ch, i) })
	}
	l.clients.Go(func() { l.consume(consumer) })
	l.clients.Go(func() { l.declare(declarer) })
	l.clients.Go(l.configure)
}

func (l *load) stop() {
	l.stopped()
	l.do(func(*books) {}) // wakes those that wait for confirms
	l.clients.Wait()
	for _, conn := range l.conns { // the server answers when it has done all that came before
		if err := conn.Close(); err != nil {
			l.t.Errorf("close a connection: %v", err)
		}
	}
}

func (l *load) send(ch *amqp.Channel, queue, id string) error {
	l.mu.Lock()
	l.published[id] = true
	l.mu.Unlock()
	confirm, err := ch.PublishWithDeferredConfirmWithContext(context.Background(), "", queue, true, false,
		amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id, Body: bytes.Repeat([]byte(id), 300)})
	if err != nil {
		return err
	}
	if ok, err := confirm.WaitContext(l.ctx); !ok || err != nil {
		return fmt.Errorf("confirmed %t: %w", ok, err)
	}
	l.do(func(b *books) {
		b.confirmed[id] = true
		l.confirms++
	})
	return nil
}

func (l *load) publish(ch *amqp.Channel, publisher int) {
	queues := []string{"work", "keep", "work", "later", "work", "delay", "work", "work"}
	for i := 0; l.ctx.Err() == nil; i++ {
		if err := l.send(ch, queues[i%len(queues)], fmt.Sprintf("m-%d-%d", publisher, i)); err != nil {
			l.fail("publish", err)
			return
		}
	}
}

// consume acks most messages and rejects some. A reply to a later method shows that the server has processed the acks.
func (l *load) consume(ch *amqp.Channel) {
	if err := ch.Qos(50, 0, false); err != nil {
		l.fail("qos", err)
		return
	}
	deliveries, err := ch.ConsumeWithContext(l.ctx, "work", "", false, false, false, false, nil)
	if err != nil {
		l.fail("consume", err)
		return
	}
	var unsure []string
	for n := 0; l.ctx.Err() == nil; n++ {
		var d amqp.Delivery
		select {
		case d = <-deliveries:
		case <-l.ctx.Done():
			return
		}
		if n%10 == 9 {
			if err := d.Reject(false); err != nil {
				l.fail("reject", err)
				return
			}
			continue
		}
		l.do(func(b *books) { b.answered[d.MessageId] = true })
		if err := d.Ack(false); err != nil {
			l.fail("ack", err)
			return
		}
		if unsure = append(unsure, d.MessageId); len(unsure) < 10 {
			continue
		}
		if err := ch.Qos(50, 0, false); err != nil {
			l.fail("qos", err)
			return
		}
		l.do(func(b *books) {
			for _, id := range unsure {
				b.settled[id] = true
			}
		})
		unsure = unsure[:0]
	}
}

func queueName(i int) string { return fmt.Sprint("queue-", i) }

// declare declares queues with one message each, and deletes the older ones.
func (l *load) declare(ch *amqp.Channel) {
	for i := 0; l.ctx.Err() == nil; i++ {
		if _, err := ch.QueueDeclare(queueName(i), true, false, false, false, nil); err != nil {
			l.fail("declare", err)
			return
		}
		if err := l.send(ch, queueName(i), "first-of-"+queueName(i)); err != nil {
			l.fail("publish", err)
			return
		}
		l.do(func(b *books) { b.declared[queueName(i)] = true })
		if i < 5 {
			continue
		}
		gone := queueName(i - 5)
		l.do(func(b *books) { b.deleting[gone] = true })
		if _, err := ch.QueueDelete(gone, false, false, false); err != nil {
			l.fail("delete", err)
			return
		}
		l.do(func(b *books) { b.deleted[gone] = true })
	}
}

// configure changes a user and a policy.
func (l *load) configure() {
	for i := 1; l.ctx.Err() == nil; i++ {
		_, err := l.engine.EditUser("shop", true, func(u *node.User) {
			u.Tags, u.Password, u.Permissions = []string{strconv.Itoa(i)}, "secret", map[string]node.Permission{"/": node.Everything()}
		})
		if err == nil {
			err = l.engine.Vhost("/").PutPolicy(node.Policy{Name: "limit", Pattern: "^queue", Definition: map[string]any{"max-length": i}})
		}
		if err != nil {
			l.fail("configure", err)
			return
		}
		l.do(func(b *books) { b.setting = i })
		l.await(5)
	}
}

// pacedWriter is a slow reader of a backup: between two writes, the clients get some work done.
type pacedWriter struct {
	bytes.Buffer
	load *load
}

func (w *pacedWriter) Write(b []byte) (int, error) {
	w.load.await(40)
	return w.Buffer.Write(b)
}

// audit restores a backup and compares it with what the clients knew before and after it was made.
func (l *load) audit(backup io.Reader, before, after books) {
	l.t.Helper()
	dir := filepath.Join(l.t.TempDir(), "restored")
	if _, err := broker.RestoreDir(l.t.Context(), dir, backup); err != nil {
		l.t.Fatalf("RestoreDir: %v", err)
	}
	server := &broker.Server{Dir: dir, Logger: quiet()}
	defer shut(l.t, server)
	control, err := brokertest.Open(server)
	if err != nil {
		l.t.Fatalf("start what was restored: %v", err)
	}
	found, queues := make(map[string]int), make(map[string]bool)
	for _, q := range control.Queues("/") {
		queues[q.Name] = true
		messages, err := q.Messages()
		if err != nil {
			l.t.Fatal(err)
		}
		for _, m := range messages {
			if !bytes.Equal(m.Body, bytes.Repeat([]byte(m.MessageID), 300)) {
				l.t.Errorf("message %s has another body", m.MessageID)
			}
			found[m.MessageID]++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, n := range found {
		if n > 1 || !l.published[id] || before.settled[id] {
			l.t.Errorf("message %s is there %d times, published %t, acked before the backup %t", id, n, l.published[id], before.settled[id])
		}
	}
	for id := range before.confirmed {
		of, own := strings.CutPrefix(id, "first-of-")
		if after.answered[id] || own && after.deleting[of] {
			continue
		}
		if l.audits.due++; found[id] != 1 {
			l.t.Errorf("message %s was confirmed before the backup, and is there %d times", id, found[id])
		}
	}
	for name := range before.declared {
		if l.audits.queues++; !after.deleting[name] && !queues[name] {
			l.t.Errorf("queue %s was declared before the backup, and is missing", name)
		}
	}
	for name := range before.deleted {
		if l.audits.gone++; queues[name] {
			l.t.Errorf("queue %s was deleted before the backup, and is there", name)
		}
	}
	// A queue is declared when the message of the one before is confirmed, also during the backup.
	for name := range queues {
		var i int
		if _, err := fmt.Sscanf(name, "queue-%d", &i); err != nil || !queues[queueName(i+1)] {
			continue
		}
		if found["first-of-"+name] != 1 {
			l.t.Errorf("queue %s is there, and not the message of %s, which is older: definitions and messages are not of one moment", queueName(i+1), name)
		}
	}
	l.audits.settled += len(before.settled)
	l.auditSettings(server, before.setting)
}

// auditSettings compares the user and the policy.
func (l *load) auditSettings(server *broker.Server, setting int) {
	l.t.Helper()
	engine, err := access.Start(server, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	user, err := engine.Login(node.Peer{}, "shop", "secret")
	if err != nil {
		l.t.Fatal(err)
	}
	policies := engine.Vhost("/").Policies()
	if user == nil || len(policies) != 1 {
		l.t.Fatalf("got user %+v and policies %+v, want one of each", user, policies)
	}
	tag, err := strconv.Atoi(user.Tags[0])
	limit, invalid := strconv.Atoi(fmt.Sprint(policies[0].Definition["max-length"]))
	// The user is changed first.
	if err != nil || invalid != nil || tag < setting || limit != tag && limit != tag-1 {
		l.t.Errorf("got the user's setting %v and the policy's %v, want %d or later, the same or one less", user.Tags, policies[0].Definition, setting)
	}
}

func TestBackupErrors(t *testing.T) {
	inMemory := start(t, &broker.Server{})
	if err := inMemory.Backup(t.Context(), io.Discard); !errors.Is(err, broker.ErrInMemory) {
		t.Errorf("a server without Dir: got %v, want ErrInMemory", err)
	}
	if err := broker.BackupDir(t.Context(), t.TempDir(), io.Discard); !errors.Is(err, broker.ErrNoData) {
		t.Errorf("an empty directory: got %v, want ErrNoData", err)
	}
	dir := t.TempDir()
	server := &broker.Server{Dir: dir, Logger: quiet()}
	var backup bytes.Buffer
	if err := server.Backup(t.Context(), &backup); err != nil {
		t.Fatal(err)
	}
	if err := broker.BackupDir(t.Context(), dir, io.Discard); err == nil {
		t.Error("BackupDir of a running server: got no error")
	}
	shut(t, server)
	whole := backup.Bytes()
	if err := broker.CheckBackup(t.Context(), bytes.NewReader(whole)); err != nil {
		t.Error(err)
	}
	if err := broker.CheckBackup(t.Context(), bytes.NewReader(whole[:len(whole)-1])); !errors.Is(err, broker.ErrBadBackup) {
		t.Errorf("a backup that is cut off: got %v, want ErrBadBackup", err)
	}
	if _, err := broker.RestoreDir(t.Context(), dir, bytes.NewReader(whole)); !errors.Is(err, broker.ErrHasData) {
		t.Errorf("restored to a directory with data: got %v, want ErrHasData", err)
	}
	if err := server.Backup(t.Context(), io.Discard); err == nil {
		t.Error("Backup of a closed server: got no error")
	}
	var stopped bytes.Buffer
	if err := broker.BackupDir(t.Context(), dir, &stopped); err != nil {
		t.Fatal(err)
	}
	report, err := broker.RestoreDir(t.Context(), filepath.Join(dir, "deep", "new"), &stopped)
	if err != nil || !report.Clean || report.Definitions == 0 {
		t.Errorf("got report %+v and %v, want a clean directory with definitions", report, err)
	}
}
