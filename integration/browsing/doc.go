// Package browsing tests the console in a real browser: Chromium, driven by its own protocol, with keys and clicks as a user has them.
//
// Its tests are built without the race detector, because they use SQLite, which that makes too slow.
package browsing
