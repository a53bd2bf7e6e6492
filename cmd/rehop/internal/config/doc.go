// Package config reads rehop.yaml: which broker, which flows, which outboxes.
package config
