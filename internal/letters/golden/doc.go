// Package golden has messages as other programs leave them in their error queues, with what is known of
// their failures, for the tests of readers and of the functions that use them.
package golden
