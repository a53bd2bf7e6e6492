package target

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rehop/rehop"
)

// environmentPrefix begins the names of variables that describe the message.
const environmentPrefix = "REHOP_"

// usualVariables are the patterns of variables that every program gets: without them it finds neither other programs nor its files, nor
// speaks the language of its user. The last lines are those of Windows.
var usualVariables = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"SystemRoot", "SystemDrive", "windir", "ComSpec", "PATHEXT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "HOMEDRIVE", "HOMEPATH",
	"APPDATA", "LOCALAPPDATA", "ProgramData", "ProgramFiles*", "CommonProgramFiles*", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE",
}

// inherited returns the variables of this process that a program gets. Those of the message are not among them, so that $REHOP_BROKER,
// which has a password, cannot be mistaken for one of them.
func inherited(all, further []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		matches := func(pattern string) bool { return isNamed(name, pattern) }
		return strings.HasPrefix(name, environmentPrefix) || !slices.ContainsFunc(usualVariables, matches) && !slices.ContainsFunc(further, matches)
	})
}

// isNamed reports whether a variable has a name, or begins with it if there is a * at its end. Windows writes the same names in various
// cases.
func isNamed(name, pattern string) bool {
	if beginning, open := strings.CutSuffix(pattern, "*"); open {
		return len(name) >= len(beginning) && sameName(name[:len(beginning)], beginning)
	}
	return sameName(name, pattern)
}

// environment returns variables that describe a message.
func environment(d *rehop.Delivery) []string {
	var list []string
	var bytes, leftOut int
	taken := make(map[string]bool)
	add := func(name, value string, ok bool) {
		name = variable(name)
		size := len(name) + len("=\x00") + len(value)
		if !ok || taken[name] || strings.ContainsRune(value, 0) || bytes+size > environmentBytes || len(list) >= describeFields {
			leftOut++
			return
		}
		taken[name] = true
		bytes += size
		list = append(list, name+"="+value)
	}
	properties(d, add)
	put := putter(add)
	put.text("Content-Type", d.ContentType)
	put.text("Content-Encoding", d.ContentEncoding)
	put.text("Last-Error", d.LastError)
	if leftOut > 0 {
		list = append(list, variable("Left-Out")+"="+strconv.Itoa(leftOut))
	}
	return list
}

// environmentBytes bounds the variables of a message. Operating systems limit arguments and environment together to not much more.
const environmentBytes = 64 << 10

func variable(name string) string { return environmentPrefix + capitals(name) }

// capitals converts a name to one that a variable can have.
func capitals(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}
