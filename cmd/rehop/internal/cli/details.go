package cli

import (
	"fmt"
	"strings"
)

// details are lines with a name and a value, without control characters.
type details struct{ strings.Builder }

// line adds a line, unless the value is empty or a dash.
func (d *details) line(name, value string) {
	if value != "" && value != "-" {
		fmt.Fprintf(d, "%-15s %s\n", name, plain(value))
	}
}
