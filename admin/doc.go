// Package admin is for the people who look after queues: it lists them, looks into the failed ones,
// and replays, discards, exports and imports what rests there.
//
// Replaying takes a message back to the one queue that failed it, with its counters reset. The
// broker has confirmed the copy before the original is removed, so a replay that is killed can be
// run again: a message may then be replayed twice, and none is lost.
//
// Watch shows what passes an exchange or comes to a queue, without taking it away from anybody.
//
// It also compares a plan of what is to be on a broker (rehop.Topology) with what is there, declares what
// is missing, migrates queues to other arguments without losing a message, and examines a broker for what
// loses messages or holds them up.
package admin
