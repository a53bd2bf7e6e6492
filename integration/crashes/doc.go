// Package crashes has the tests that kill the embedded broker as a process of its own, at random and at every named
// point of its log, take its disk away, and then look whether everything that was confirmed is there.
package crashes
