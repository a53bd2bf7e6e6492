// Package export writes variables as lines for a shell.
package export

import "strings"

// Variable is an environment variable that tests read.
type Variable struct{ Name, Value string }

// String is an export line. The value is always in single quotes, so that it is easy to parse without a shell, too.
func (v Variable) String() string {
	return "export " + v.Name + "='" + strings.ReplaceAll(v.Value, "'", `'\''`) + "'"
}
