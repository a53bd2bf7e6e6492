package triage

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Grouping decides which messages belong to one group: those of the same queue and kind for which Of returns the same text.
type Grouping struct {
	// Version is the number of the rules, from 1 on. Increase it when Of changes: [Store.Regroup] then groups all messages again.
	Version int
	// Of returns what the messages of a group have in common, which is also the title of the group. It must be a pure function.
	Of func(m *Message) string
}

// DefaultGrouping groups by the text of the error without what differs from message to message: numbers, ids, quoted text, addresses and
// times. Panics are grouped by the first function of your code in the stack.
func DefaultGrouping() Grouping { return Grouping{Version: 1, Of: Cause} }

// Cause is what [DefaultGrouping] groups by.
func Cause(m *Message) string {
	if m.Stack != "" {
		if frame := firstOwnFrame(m.Stack); frame != "" {
			return "panic in " + frame
		}
	}
	return Normalize(m.Error)
}

// groupID is the ID of the group that a message belongs to.
func (g Grouping) groupID(m *Message) (id, title string) {
	title = strings.ToValidUTF8(shorten(g.Of(m), maxTitle), "\uFFFD")
	h := sha256.New()
	add(h, m.Queue, m.Kind, title)
	h.Write([]byte{byte(g.Version), byte(g.Version >> 8)})
	return hex.EncodeToString(h.Sum(nil)[:8]), title
}

const maxTitle = 500

// firstOwnFrame is the first function in a stack of Go that belongs neither to the runtime, nor to the standard library, nor to rehop. If
// there was a panic, the frames before it are those of who recovered it.
func firstOwnFrame(stack string) string {
	if _, after, found := strings.Cut(stack, "\npanic("); found {
		if _, rest, more := strings.Cut(after, "\n"); more {
			stack = rest
		}
	}
	lines := strings.Split(stack, "\n")
	for i, line := range lines {
		if line == "" || line[0] == '\t' || strings.HasPrefix(line, "goroutine ") {
			continue
		}
		file := ""
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\t") {
			file = lines[i+1]
		}
		name := functionName(line)
		if name != "" && !isOfLibrary(name, file) {
			return name
		}
	}
	return ""
}

// functionName is the name in a line such as "example.com/shop.(*Cart).Add(0xc000012345, 0x2)".
func functionName(line string) string {
	line = strings.TrimPrefix(line, "created by ")
	line, _, _ = strings.Cut(line, " in goroutine ")
	if open := strings.LastIndexByte(line, '('); open > 0 && strings.HasSuffix(line, ")") {
		line = line[:open]
	}
	return strings.TrimSpace(line)
}

// isOfLibrary reports whether a function is not of the user's code.
func isOfLibrary(name, file string) bool {
	const own = "github.com/rehop/rehop"
	if after, ok := strings.CutPrefix(name, own); ok && (after == "" || after[0] == '.' || after[0] == '/') {
		return !strings.HasPrefix(after, "/examples") && !strings.HasPrefix(after, "/cmd")
	}
	first, _, _ := strings.Cut(name, "/")
	if first == name { // "runtime.gopanic", "main.main"
		first, _, _ = strings.Cut(name, ".")
	}
	if first == "main" || strings.Contains(first, ".") {
		return false
	}
	// A module of the user can be called like a directory of Go's. Where the stack has whole paths, Go's own are in src.
	return standard[first] && (!strings.HasPrefix(file, "\t/") || strings.Contains(file, "/src/"+first))
}

// standard are the directories of Go's standard library.
var standard = map[string]bool{
	"archive": true, "bufio": true, "bytes": true, "cmp": true, "compress": true, "container": true, "context": true, "crypto": true,
	"database": true, "debug": true, "embed": true, "encoding": true, "errors": true, "expvar": true, "flag": true, "fmt": true, "go": true,
	"hash": true, "html": true, "image": true, "index": true, "internal": true, "io": true, "iter": true, "log": true, "maps": true,
	"math": true, "mime": true, "net": true, "os": true, "path": true, "plugin": true, "reflect": true, "regexp": true, "runtime": true,
	"slices": true, "sort": true, "strconv": true, "strings": true, "sync": true, "syscall": true, "testing": true, "text": true,
	"time": true, "unicode": true, "unique": true, "unsafe": true, "vendor": true, "weak": true, "panic": true,
}
