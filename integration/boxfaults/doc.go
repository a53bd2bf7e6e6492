// Package boxfaults has tests that kill databases, relays, consumers and brokers, and cut connections around a COMMIT, while messages
// pass through an outbox and an inbox. Then they compare what was committed with what was published and with what its handlers did.
package boxfaults
