// Package boxfaults has the tests that kill databases, relays, consumers and brokers, and cut connections around a COMMIT, while
// messages pass an outbox and an inbox, and then hold what has come against what was committed.
package boxfaults
