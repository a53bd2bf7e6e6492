// Package demo is a shop that takes orders on an embedded broker. Its notifications fail now and then, are retried, go to the failed queue
// and are replayed. At the end it accounts for every message.
package demo
