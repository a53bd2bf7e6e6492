// Package serve is the service that rehop up and rehop run start: flows, with or without a broker beside them, health and metrics.
package serve
