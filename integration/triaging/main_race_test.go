//go:build race

package triaging

// crashing is nil: the tests that write to SQLite until they are killed are built without the race detector.
func crashing() func() error { return nil }
