// Package cli is the rehop command: a file for each of its commands, and what they share.
package cli
