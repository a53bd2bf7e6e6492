// Package letters reads how other programs record the failure of a message that they move to an error
// queue, and restores the message as it was before it failed.
package letters
