// Package binary has tests of the rehop program as its users run it: as processes.
package binary
