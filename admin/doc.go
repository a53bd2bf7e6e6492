// Package admin has the functions that operators need: it lists queues, shows failed messages, and
// replays, discards, exports and imports them.
//
// Replaying returns a message to the queue in which it failed, and only there, with all its
// attempts. The original is removed after the broker has confirmed the copy. So you can run a replay
// again after it was killed: it loses no message, but some may have been replayed twice.
//
// Watch shows the messages that pass an exchange or arrive in a queue, without consuming them.
//
// Diff, Apply and Migrate compare a plan (see rehop.Topology) with the broker, declare what is
// missing, and change the arguments of existing queues without losing messages. Doctor finds settings
// and states of the broker that can lose or delay messages.
package admin
