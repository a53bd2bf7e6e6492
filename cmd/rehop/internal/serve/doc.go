// Package serve is the service of rehop up and rehop run: flows, an embedded broker if there is no other, health checks and metrics.
package serve
