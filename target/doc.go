// Package target has handlers that hand a message on to where the work is done, in any language: to an HTTP endpoint, a
// program, or another exchange.
//
// A target does not retry by itself. What it returns says what became of a message, and the subscription's schedule
// does the rest, as for every other handler.
package target
