// Package seeded shows that the tests of the promises can fail: it builds them with a bug, one of twelve that lose or multiply messages in
// real systems, and runs them until they find it.
package seeded
