// Package sweeps is a suite of what operators rely on when they list, export, replay and discard failed messages, for any broker: nothing is lost
// or moved by looking at it, and one at a time reads a queue.
package sweeps
