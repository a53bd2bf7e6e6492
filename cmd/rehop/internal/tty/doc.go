// Package tty draws a picture that is updated, and reads single keys.
package tty
