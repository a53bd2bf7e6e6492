// Package layouts has the mechanics of the layouts of package layout: the exchanges, queues and
// bindings that each needs, the names of rehop's own, and what becomes of a message that fails.
//
// Everything here is pure: a layout turns settings into a plan, and a delay into the address at which
// a message waits for that time. Nothing talks to a broker.
package layouts
