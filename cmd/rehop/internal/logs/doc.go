// Package logs knows how the service logs: short lines for a terminal, and repeated failures as a count.
package logs
