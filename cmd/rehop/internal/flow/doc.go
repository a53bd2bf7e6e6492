// Package flow runs what a rehop.yaml says: subscriptions with their targets, and relays of outboxes.
package flow
