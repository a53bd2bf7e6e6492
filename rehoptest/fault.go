package rehoptest

// Drop cuts all connections, and returns how many there were. Clients reconnect automatically.
func (b *Broker) Drop() int { return b.control.DropConnections() }

// Down cuts all connections and refuses new ones until Up. What the broker holds stays there.
func (b *Broker) Down() {
	b.network.setDown(true)
	for _, s := range b.network.present() {
		_ = s.Close()
	}
}

// Up ends Down.
func (b *Broker) Up() { b.network.setDown(false) }

// Silence drops everything that is sent on the current connections, in both directions, as if a cable had been
// cut: only missed heartbeats show it. New connections work. See [rehop.Config] for the heartbeat; here it is
// ten minutes unless set.
func (b *Broker) Silence() {
	for _, s := range b.network.present() {
		s.silent.Store(true)
	}
}

// Block makes the broker accept no messages until Unblock, as with a memory or disk alarm. Consumers continue.
func (b *Broker) Block() { b.control.Block(true) }

// Unblock ends Block.
func (b *Broker) Unblock() { b.control.Block(false) }

// Refuse makes the broker refuse messages for which f is true: Publish returns rehop.ErrRefused. A failed
// message is published too, to one of rehop's exchanges, or with the exchange "" to its failed queue. f is
// called from many goroutines; nil ends refusing.
func (b *Broker) Refuse(f func(exchange, key string) bool) { b.control.Refuse(f) }

// HoldConfirms makes the broker accept messages and confirm none until ReleaseConfirms.
func (b *Broker) HoldConfirms() { b.control.HoldConfirms(true) }

// ReleaseConfirms confirms what was held back, and all that follows.
func (b *Broker) ReleaseConfirms() { b.control.HoldConfirms(false) }

// HoldConfirmsOf is HoldConfirms for messages for which f is true; others are confirmed as usual. f is called from many goroutines; nil
// confirms what was held back, and all that follows.
func (b *Broker) HoldConfirmsOf(f func(exchange, key string) bool) { b.control.HoldConfirmsOf(f) }
