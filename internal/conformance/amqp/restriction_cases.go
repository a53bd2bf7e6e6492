package amqp

import (
	"testing"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/internal/wire"
)

const (
	vhostLimitsPage      = "Virtual Hosts: Limits"
	userLimitsPage       = "User Limits"
	topicPermissionsPage = "Access Control: Topic Authorisation"
	defaultTypePage      = "Virtual Hosts: Default Queue Type"
)

func restrictionCases() []Case {
	return []Case{
		{"VhostConnections", vhostLimitsPage, vhostConnections},
		{"VhostConnectionsNone", vhostLimitsPage, vhostConnectionsNone},
		{"VhostConnectionsFreed", vhostLimitsPage, vhostConnectionsFreed},
		{"VhostQueues", vhostLimitsPage, vhostQueues},
		{"VhostQueuesAndArguments", vhostLimitsPage, vhostQueuesFirst},
		{"VhostQueuesNamedByServer", vhostLimitsPage, vhostQueuesNamedByServer},
		{"VhostQueuesFreed", vhostLimitsPage, vhostQueuesFreed},
		{"VhostNegativeIsUnlimited", vhostLimitsPage, vhostUnlimited},
		{"UserConnections", userLimitsPage, userConnections},
		{"UserConnectionsNone", userLimitsPage, userConnectionsNone},
		{"UserChannels", userLimitsPage, userChannels},
		{"UserChannelsOfAllConnections", userLimitsPage, userChannelsOfAll},
		{"UserChannelsFreed", userLimitsPage, userChannelsFreed},
		{"TopicPublish", topicPermissionsPage, topicPublish},
		{"TopicPublishAfterChange", topicPermissionsPage, topicPublishAfterChange},
		{"TopicBind", topicPermissionsPage, topicBind},
		{"TopicUnbind", topicPermissionsPage, topicUnbind},
		{"TopicBindExchange", topicPermissionsPage, topicBindExchange},
		{"TopicBindMissingQueue", topicPermissionsPage, topicBindMissingQueue},
		{"TopicNothing", topicPermissionsPage, topicNothing},
		{"TopicOtherKinds", topicPermissionsPage, topicOtherKinds},
		{"TopicByWayOfAnother", topicPermissionsPage, topicByWayOfAnother},
		{"DefaultType", defaultTypePage, defaultType},
		{"DefaultTypeWhereItSuits", defaultTypePage, defaultTypeWhereItSuits},
		{"DefaultTypeIsAnArgument", defaultTypePage, defaultTypeIsAnArgument},
	}
}

// refusedConnection tries to connect as the virtual host's user, or another, and wants to be refused.
func (b *Bench) refusedConnection(user, password, text string) {
	b.t.Helper()
	r := b.Raw()
	r.Start()
	r.Send(0, &wire.ConnectionStartOK{ClientProperties: failureClose(), Mechanism: "PLAIN", Response: plain(user, password), Locale: "en_US"})
	Expect[*wire.ConnectionTune](r, 0)
	r.Send(0, &wire.ConnectionTuneOK{ChannelMax: channelMax, FrameMax: frameMax}, &wire.ConnectionOpen{VirtualHost: b.Name})
	got := Expect[*wire.ConnectionClose](r, 0)
	if want := b.expand("NOT_ALLOWED - " + text); got.ReplyCode != wire.NotAllowed || got.ReplyText != want {
		b.t.Fatalf("got exception %d %q\nwant          %d %q", got.ReplyCode, got.ReplyText, wire.NotAllowed, want)
	}
	r.Send(0, &wire.ConnectionCloseOK{})
	r.WantEnd()
}

func vhostConnections(t *testing.T, b *Bench) {
	b.Target.SetVhostLimit(t, b.Name, "max-connections", 1)
	first := b.Connect()
	b.refusedConnection(b.User, b.Password, "access to vhost '{vhost}' refused for user '"+b.User+"': connection limit (1) is reached")
	first.Channel().Sync()
}

func vhostConnectionsNone(t *testing.T, b *Bench) {
	open := b.Connect()
	b.Target.SetVhostLimit(t, b.Name, "max-connections", 0)
	b.refusedConnection(b.User, b.Password, "access to vhost '{vhost}' refused for user '"+b.User+"': connection limit (0) is reached")
	open.Channel().Sync() // who is in stays
}

func vhostConnectionsFreed(t *testing.T, b *Bench) {
	b.Target.SetVhostLimit(t, b.Name, "max-connections", 1)
	for range 3 {
		// The broker may count a connection for a moment after it has ended.
		b.Eventually("one more connection is let in, and ends", func() bool {
			conn, err := b.TryConnect(amqp091.Config{SASL: []amqp091.Authentication{&amqp091.PlainAuth{Username: b.User, Password: b.Password}}, Vhost: b.Name})
			if err != nil {
				return false
			}
			conn.Channel().Sync()
			return conn.Close() == nil
		})
	}
}

const queueLimit = "PRECONDITION_FAILED - cannot declare queue 'two': queue limit in vhost '{vhost}' (1) is reached"

func vhostQueues(t *testing.T, b *Bench) {
	b.Target.SetVhostLimit(t, b.Name, "max-queues", 1)
	ch := b.Channel()
	ch.Queue("one", nil)
	ch.Queue("one", nil) // is there
	_, err := ch.QueueDeclare("two", true, false, false, false, nil)
	b.Refused(err, 406, queueLimit)
	_, err = b.Channel().QueueDeclarePassive("one", false, false, false, false, nil)
	b.Must(err)
}

// The limit is looked at before the arguments, and after them from 4.0 on.
func vhostQueuesFirst(t *testing.T, b *Bench) {
	b.Target.SetVhostLimit(t, b.Name, "max-queues", 1)
	b.Channel().Queue("one", nil)
	ch := b.Channel()
	_, err := ch.QueueDeclare("two", true, false, false, false, amqp091.Table{"x-message-ttl": "soon", "x-dead-letter-exchange": 5})
	b.Refused(err, 406, either(b, release40, "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'two' in vhost '{vhost}'", queueLimit))
	_, err = b.Channel().QueueDeclare("two", true, false, false, false, amqp091.Table{"x-message-ttl": "soon"})
	b.Refused(err, 406, either(b, release40, `PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'two' in vhost '{vhost}': "expected integer, got longstr"`, queueLimit))
}

func vhostQueuesNamedByServer(t *testing.T, b *Bench) {
	b.Target.SetVhostLimit(t, b.Name, "max-queues", 0)
	r := b.RawChannel()
	r.Send(1, &wire.QueueDeclare{Exclusive: true})
	if got := Expect[*wire.ChannelClose](r, 1); got.ReplyCode != wire.PreconditionFailed {
		b.t.Errorf("got %d %s, want 406", got.ReplyCode, got.ReplyText)
	}
}

func vhostQueuesFreed(t *testing.T, b *Bench) {
	b.Target.SetVhostLimit(t, b.Name, "max-queues", 1)
	ch := b.Channel()
	ch.Queue("one", nil)
	_, err := ch.QueueDelete("one", false, false, false)
	b.Must(err)
	ch.Queue("two", nil)
}

func vhostUnlimited(t *testing.T, b *Bench) {
	b.Target.SetVhostLimit(t, b.Name, "max-queues", -1)
	b.Target.SetVhostLimit(t, b.Name, "max-connections", -5)
	b.Channel().Queue("one", nil)
	b.Channel().Queue("two", nil)
}

func userConnections(t *testing.T, b *Bench) {
	user, password := b.Target.AddUser(t, b.Name, ".*", ".*", ".*")
	b.Target.SetUserLimit(t, user, "max-connections", 1)
	b.ConnectAs(user, password).Channel().Sync()
	b.refusedConnection(user, password, "connection refused for user '"+user+"': user connection limit (1) is reached")
	b.Connect().Channel().Sync() // others are not meant
}

func userConnectionsNone(t *testing.T, b *Bench) {
	user, password := b.Target.AddUser(t, b.Name, ".*", ".*", ".*")
	b.Target.SetUserLimit(t, user, "max-connections", 0)
	b.refusedConnection(user, password, "connection refused for user '"+user+"': user connection limit (0) is reached")
	b.Target.SetUserLimit(t, user, "max-connections", -1)
	b.ConnectAs(user, password).Channel().Sync()
}

func userChannels(t *testing.T, b *Bench) {
	user, password := b.Target.AddUser(t, b.Name, ".*", ".*", ".*")
	b.Target.SetUserLimit(t, user, "max-channels", 2)
	conn := b.ConnectAs(user, password)
	conn.Channel().Sync()
	conn.Channel().Sync()
	wantTooManyChannels(b, user, func() *Conn { return conn })
}

// wantTooManyChannels opens one more channel. RabbitMQ counts channels a moment after it has opened them.
func wantTooManyChannels(b *Bench, user string, connect func() *Conn) {
	b.t.Helper()
	var err error
	b.Eventually("there are too many channels", func() bool {
		var ch *amqp091.Channel
		if ch, err = connect().Connection.Channel(); err == nil {
			b.Must(ch.Close())
		}
		return err != nil
	})
	exception, _ := err.(*amqp091.Error)
	// 4.0 has the node's name in place of the user's.
	want := either(b, release40, "…' has reached the maximum allowed user limit of (2)", user+"' has reached the maximum allowed user limit of (2)")
	want = either(b, release43, user+"' has reached the maximum allowed user limit of 2", want)
	want = "NOT_ALLOWED - number of channels opened for user '" + want
	if exception == nil || exception.Code != 530 || !matches(exception.Reason, want) {
		b.t.Fatalf("got %v, want 530 %s", err, want)
	}
}

func userChannelsOfAll(t *testing.T, b *Bench) {
	user, password := b.Target.AddUser(t, b.Name, ".*", ".*", ".*")
	b.Target.SetUserLimit(t, user, "max-channels", 2)
	b.ConnectAs(user, password).Channel().Sync()
	b.ConnectAs(user, password).Channel().Sync()
	wantTooManyChannels(b, user, func() *Conn { return b.ConnectAs(user, password) })
}

func userChannelsFreed(t *testing.T, b *Bench) {
	user, password := b.Target.AddUser(t, b.Name, ".*", ".*", ".*")
	b.Target.SetUserLimit(t, user, "max-channels", 1)
	b.Eventually("a channel that was closed makes room for another", func() bool {
		conn := b.ConnectAs(user, password)
		for range 3 {
			ch, err := conn.Connection.Channel()
			if err != nil {
				return false // the broker is still counting the last
			}
			b.Must(ch.Close())
		}
		return true
	})
}

// refusedTopic is how a key is refused.
func refusedTopic(b *Bench, right, key string) string {
	b.t.Helper()
	return denied(b, right, "topic '"+key+"' in exchange 'amq.topic'", b.User)
}

func restrictTopics(t *testing.T, b *Bench) {
	b.t.Helper()
	b.Target.SetTopicPermission(t, b.Name, b.User, "amq.topic", `^w\.{username}`, `^r\.{vhost}$`)
}

func topicPublish(t *testing.T, b *Bench) {
	restrictTopics(t, b)
	ch := b.Channel()
	b.Must(ch.Publish("amq.topic", "w."+b.User+".more", false, false, amqp091.Publishing{}))
	ch.Sync()
	for _, key := range []string{"w.somebody", "", "r." + b.Name} {
		r := b.RawChannel()
		r.Publish(1, &wire.BasicPublish{Exchange: "amq.topic", RoutingKey: key}, wire.Properties{}, nil)
		r.WantChannelClose(1, 403, refusedTopic(b, "write", key), wire.IDBasicPublish)
	}
}

// What a connection remembers of its routes is void when permissions change.
func topicPublishAfterChange(t *testing.T, b *Bench) {
	r := b.RawChannel()
	r.Publish(1, &wire.BasicPublish{Exchange: "amq.topic", RoutingKey: "key"}, wire.Properties{}, nil)
	r.Sync()
	restrictTopics(t, b)
	r.OpenChannel(2) // RabbitMQ remembers it in each channel for a while
	r.Publish(2, &wire.BasicPublish{Exchange: "amq.topic", RoutingKey: "key"}, wire.Properties{}, nil)
	r.WantChannelClose(2, 403, refusedTopic(b, "write", "key"), wire.IDBasicPublish)
}

func topicBind(t *testing.T, b *Bench) {
	restrictTopics(t, b)
	ch := b.Channel()
	ch.Queue("q", nil)
	b.Must(ch.QueueBind("q", "r."+b.Name, "amq.topic", false, nil))
	for _, key := range []string{"#", "r." + b.Name + ".more"} {
		ch := b.Channel()
		b.Refused(ch.QueueBind("q", key, "amq.topic", false, nil), 403, refusedTopic(b, "read", key))
	}
}

func topicUnbind(t *testing.T, b *Bench) {
	ch := b.Channel()
	ch.Queue("q", nil)
	b.Must(ch.QueueBind("q", "#", "amq.topic", false, nil))
	restrictTopics(t, b)
	ch = b.Channel()
	b.Refused(ch.QueueUnbind("q", "#", "amq.topic", nil), 403, refusedTopic(b, "read", "#"))
}

func topicBindExchange(t *testing.T, b *Bench) {
	restrictTopics(t, b)
	ch := b.Channel()
	b.Must(ch.ExchangeBind("amq.topic", "#", "amq.fanout", false, nil)) // to it is free
	b.Refused(ch.ExchangeBind("amq.fanout", "#", "amq.topic", false, nil), 403, refusedTopic(b, "read", "#"))
}

func topicBindMissingQueue(t *testing.T, b *Bench) {
	restrictTopics(t, b)
	ch := b.Channel()
	b.Refused(ch.QueueBind("missing", "#", "amq.topic", false, nil), 403, refusedTopic(b, "read", "#"))
}

// An empty pattern allows nothing but the empty key.
func topicNothing(t *testing.T, b *Bench) {
	b.Target.SetTopicPermission(t, b.Name, b.User, "amq.topic", "", "")
	ch := b.Channel()
	b.Must(ch.Publish("amq.topic", "", false, false, amqp091.Publishing{}))
	ch.Sync()
	r := b.RawChannel()
	r.Publish(1, &wire.BasicPublish{Exchange: "amq.topic", RoutingKey: "key"}, wire.Properties{}, nil)
	r.WantChannelClose(1, 403, refusedTopic(b, "write", "key"), wire.IDBasicPublish)
}

func topicOtherKinds(t *testing.T, b *Bench) {
	for _, name := range []string{"amq.direct", "amq.fanout", "amq.headers"} {
		b.Target.SetTopicPermission(t, b.Name, b.User, name, "", "")
		ch := b.Channel()
		ch.Queue("q", nil)
		b.Must(ch.QueueBind("q", "key", name, false, nil))
		b.Must(ch.Publish(name, "key", false, false, amqp091.Publishing{}))
		ch.Sync()
	}
}

// Only the exchange that is published to asks, not those that it is bound to.
func topicByWayOfAnother(t *testing.T, b *Bench) {
	ch := b.Channel().Confirming()
	ch.Queue("q", nil)
	b.Must(ch.QueueBind("q", "#", "amq.topic", false, nil))
	b.Must(ch.ExchangeBind("amq.topic", "", "amq.fanout", false, nil))
	b.Target.SetTopicPermission(t, b.Name, b.User, "amq.topic", "", "")
	ch.Send("amq.fanout", "key", "through")
	b.WantDelivery(ch.Deliveries("q"), "through")
}

// wantType checks whether a queue is of a type by declaring it once more.
func wantType(b *Bench, name string, durable, autoDelete bool, typ string) {
	b.t.Helper()
	other := map[string]string{"quorum": "classic", "classic": "quorum"}[typ]
	ch := b.Channel()
	_, err := ch.QueueDeclare(name, durable, autoDelete, false, false, amqp091.Table{"x-queue-type": other})
	if err == nil {
		b.t.Errorf("queue %s can be declared as %s, want it to be %s", name, other, typ)
	}
	_, err = b.Channel().QueueDeclare(name, durable, autoDelete, false, false, amqp091.Table{"x-queue-type": typ})
	b.Must(err)
}

func defaultType(t *testing.T, b *Bench) {
	b.Target.SetDefaultQueueType(t, b.Name, "quorum")
	ch := b.Channel()
	for range 2 {
		_, err := ch.QueueDeclare("q", true, false, false, false, nil)
		b.Must(err)
	}
	wantType(b, "q", true, false, "quorum")
	_, err := ch.QueueDeclare("c", true, false, false, false, amqp091.Table{"x-queue-type": "classic"})
	b.Must(err)
	_, err = ch.QueueDeclare("c", true, false, false, false, nil)
	b.Refused(err, 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'c' in vhost '{vhost}': received 'quorum' but current is 'classic'")
}

func defaultTypeWhereItSuits(t *testing.T, b *Bench) {
	b.Target.SetDefaultQueueType(t, b.Name, "quorum")
	ch := b.Channel()
	for _, c := range []struct {
		name                string
		durable, autoDelete bool
	}{{"transient", false, false}, {"auto", true, true}} {
		if !c.durable && b.Since(release43) {
			continue // it is refused
		}
		_, err := ch.QueueDeclare(c.name, c.durable, c.autoDelete, false, false, nil)
		b.Must(err)
		wantType(b, c.name, c.durable, c.autoDelete, "classic")
	}
	_, err := ch.QueueDeclare("exclusive", true, false, true, false, nil)
	b.Must(err)
}

func defaultTypeIsAnArgument(t *testing.T, b *Bench) {
	b.Target.SetDefaultQueueType(t, b.Name, "quorum")
	ch := b.Channel()
	_, err := ch.QueueDeclare("q", true, false, false, false, amqp091.Table{"x-max-priority": 5})
	b.Refused(err, 406, "PRECONDITION_FAILED - invalid arg 'x-max-priority' for queue 'q' in vhost '{vhost}' of queue type rabbit_quorum_queue")
}
