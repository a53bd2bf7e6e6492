// Package demo is a shop that takes orders, on a broker within the program: its notifications fail now and then, are retried, come to
// rest and are replayed, and at the end every message is accounted for.
package demo
