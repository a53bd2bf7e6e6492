// Package target has handlers that pass messages on, to code in any language: to an HTTP endpoint, a program, or another exchange.
//
// A target does not retry. It returns an error like every other handler, and the subscription's schedule decides.
package target
