package config

import (
	"fmt"
	"regexp"
)

// reference is ${NAME}, or what begins like it; $${ stands for ${ itself.
var reference = regexp.MustCompile(`\$\$\{|\$\{([^}]*)(\}?)`)

// name is the name of a variable of the environment.
var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces references to the environment, and returns errors for those that are wrong or missing. Values are not expanded again.
func expand(text string, env func(name string) (string, bool)) (out string, missing []string) {
	out = reference.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$${" {
			return "${"
		}
		part := reference.FindStringSubmatch(found)
		switch {
		case part[2] == "":
			missing = append(missing, "${ has no } behind it; write $${ for ${ itself")
		case !name.MatchString(part[1]):
			missing = append(missing, fmt.Sprintf("${%s} is not the name of a variable; write $${ for ${ itself", part[1]))
		default:
			value, set := env(part[1])
			if !set {
				missing = append(missing, fmt.Sprintf("${%s}: the environment has no %s; set it before you start rehop", part[1], part[1]))
			}
			return value
		}
		return ""
	})
	return out, missing
}
