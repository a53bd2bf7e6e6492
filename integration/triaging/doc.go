// Package triaging runs the suite of the index of failed messages on real databases, and measures the index.
package triaging
