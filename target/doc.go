// Package target has handlers that hand a message on to where the work is done: to an HTTP endpoint, in any
// language.
//
// A target does not retry by itself. What it returns says what became of a message, and the subscription's schedule
// does the rest, as for every other handler.
package target
