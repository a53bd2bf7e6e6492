package mgmt

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/rehop/rehop/broker/internal/node"
)

// audit logs a request that changes something, and whether it was allowed. Messages are traffic, not changes: publishing
// and reading them is logged at debug, unless the read removes them.
func (c *call) audit(rt route, err error) {
	method, pattern, _ := strings.Cut(rt.pattern, " ")
	if method == http.MethodGet {
		return
	}
	level := slog.LevelInfo
	if strings.HasSuffix(pattern, "/publish") || strings.HasSuffix(pattern, "/get") && !c.removes() {
		level = slog.LevelDebug
	}
	result := "ok"
	switch {
	case err == nil:
	case asFailure(err).status == http.StatusUnauthorized:
		result = "refused"
	default:
		result = "failed"
	}
	c.node.Audit(level, node.Change{User: c.user.Name, From: c.peer(), Via: "http", What: rt.pattern, Result: result, Details: c.details(pattern)})
}

// removes reports whether a request for messages takes them from their queue.
func (c *call) removes() bool {
	return c.body != nil && strings.HasSuffix(c.body.text("ackmode", ""), "_requeue_false")
}

// shownFields are the fields of a body that the log shows. Others can have secrets: passwords, and values of parameters.
var shownFields = []string{"tags", "configure", "write", "read", "exchange", "pattern", "users", "ackmode"}

// longestField is how many bytes of a value are logged.
const longestField = 1024

// details are the names in the path, and what the log shows of the body.
func (c *call) details(pattern string) (all []any) {
	for segment := range strings.SplitSeq(pattern, "/") {
		if name, named := strings.CutPrefix(segment, "{"); named {
			name = strings.TrimSuffix(name, "}")
			all = append(all, name, printable(c.values[name]))
		}
	}
	if c.body == nil {
		return all
	}
	if strings.HasPrefix(pattern, "/api/definitions") {
		for _, step := range c.importSteps() {
			if entries, ok := c.body.values[step.key].([]any); ok {
				all = append(all, step.key, len(entries))
			}
		}
		return all
	}
	for _, key := range shownFields {
		switch value := c.body.values[key].(type) {
		case string:
			all = append(all, "set_"+key, printable(value[:min(len(value), longestField)]))
		case []any:
			all = append(all, "set_"+key, names(value))
		}
	}
	return all
}

// names joins a list of strings.
func names(values []any) string {
	var all []string
	for _, v := range values {
		if text, ok := v.(string); ok {
			all = append(all, printable(text))
		}
	}
	joined := strings.Join(all, ",")
	return joined[:min(len(joined), longestField)]
}
