package console

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rehop/rehop/internal/headerjson"
)

// headerRow is a header of a message, with its type in AMQP.
type headerRow struct {
	Name, Type, Value string
	Cut               bool // the value is longer
}

// maxHeaderShown is how many bytes of a header are shown.
const maxHeaderShown = 4 << 10

// headerRows are the headers of a message by name.
func headerRows(headers map[string]any) (rows []headerRow) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		r := headerRow{Name: name, Type: typeName(headers[name]), Value: valueText(headers[name])}
		r.Value, r.Cut = cut(r.Value, maxHeaderShown)
		rows = append(rows, r)
	}
	return rows
}

// argumentsOf are the arguments of a queue by name.
func argumentsOf(args map[string]any) (all []condition) {
	for _, r := range headerRows(args) {
		all = append(all, condition{r.Name, r.Value})
	}
	return all
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case bool:
		return "boolean"
	case []byte:
		return "bytes"
	case time.Time:
		return "time"
	case map[string]any:
		return "table"
	case []any, []string:
		return "list"
	case json.Number:
		return "number"
	}
	return fmt.Sprintf("%T", v)
}

// valueText is a value as text. Numbers are exact.
func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case []byte:
		return "base64 " + base64.StdEncoding.EncodeToString(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case map[string]any, []any, []string:
		text, err := json.Marshal(headerjson.Plain(map[string]any{"": v})[""])
		if err != nil {
			return fmt.Sprint(v)
		}
		return string(text)
	}
	return fmt.Sprint(v)
}
