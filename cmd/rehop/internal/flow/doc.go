// Package flow runs the flows and outbox relays of a rehop.yaml.
package flow
