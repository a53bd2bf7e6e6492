// Package topologies has what only rehop itself needs of plans and of what a broker has: it merges
// parts that cannot contradict each other, chooses between forms, and finds out where a broker leads
// messages.
package topologies
