// Package errorqueues checks what operators do with error queues of other frameworks. The suite runs on
// any broker.
package errorqueues
