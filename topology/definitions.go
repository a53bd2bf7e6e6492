package topology

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Definitions returns the plan as RabbitMQ's definitions, for a virtual host that exists. Import them with
// rabbitmqctl import_definitions, through the management API, or when a broker starts; objects that exist
// already stay unchanged. Temporary queues are left out, and so are objects of other applications, which
// must exist before the bindings are imported. A name that is not UTF-8 is an error.
func (p Plan) Definitions(vhost string) ([]byte, error) {
	p = p.WithoutTemporary()
	policies, exchanges, queues, bindings := []any{}, []any{}, []any{}, []any{}
	for _, rule := range p.Policies {
		policies = append(policies, map[string]any{"vhost": vhost, "name": rule.Name, "pattern": rule.Pattern, "apply-to": rule.ApplyTo,
			"priority": rule.Priority, "definition": plain(rule.Definition)})
	}
	for _, x := range p.Exchanges {
		if !x.Passive {
			exchanges = append(exchanges, map[string]any{"vhost": vhost, "name": x.Name, "type": x.Type, "durable": true, "auto_delete": false,
				"internal": x.Internal, "arguments": plain(x.Args)})
		}
	}
	for _, q := range p.Queues {
		if !q.Passive {
			queues = append(queues, map[string]any{"vhost": vhost, "name": q.Name, "durable": true, "auto_delete": false, "arguments": plain(q.Args)})
		}
	}
	for _, b := range p.Bindings {
		to := "queue"
		if b.ToExchange {
			to = "exchange"
		}
		bindings = append(bindings, map[string]any{"vhost": vhost, "source": b.Source, "destination": b.Destination, "destination_type": to,
			"routing_key": b.Key, "arguments": plain(b.Args)})
	}
	d := map[string]any{"policies": policies, "exchanges": exchanges, "queues": queues, "bindings": bindings}
	if bad, ok := notText(d); ok {
		return nil, fmt.Errorf("write definitions: %q is not UTF-8, and JSON would make another name of it", bad)
	}
	var out bytes.Buffer
	w := json.NewEncoder(&out)
	w.SetEscapeHTML(false)
	w.SetIndent("", "  ")
	if err := w.Encode(d); err != nil {
		return nil, fmt.Errorf("write definitions: %w", err)
	}
	return out.Bytes(), nil
}

// notText finds text that JSON cannot carry.
func notText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, !utf8.ValidString(v)
	case []any:
		for _, e := range v {
			if bad, ok := notText(e); ok {
				return bad, true
			}
		}
	case map[string]any:
		for name, e := range v {
			if !utf8.ValidString(name) {
				return name, true
			}
			if bad, ok := notText(e); ok {
				return bad, true
			}
		}
	}
	return "", false
}
