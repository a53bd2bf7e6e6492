// Package reap lets rehop be the first process of a container.
package reap
