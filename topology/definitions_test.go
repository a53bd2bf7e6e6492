package topology

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestDefinitions(t *testing.T) {
	t.Parallel()
	plan := Plan{
		Exchanges: []Exchange{{Name: "x", Type: "topic", Internal: true, Args: Args{"alternate-exchange": "y"}}, {Name: "theirs", Passive: true}},
		Queues:    []Queue{{Name: "q", Args: Args{"x-message-ttl": 5}}, {Name: "foreign", Passive: true}, {Name: "mine", Exclusive: true}, {Name: "brief", AutoDelete: true}},
		Bindings: []Binding{{Source: "theirs", Destination: "q", Key: "<k>"}, {Source: "x", Destination: "mine"}, {Source: "x", Destination: "brief"},
			{Source: "x", Destination: "y", ToExchange: true, Args: Args{"x-match": "all"}}},
		Policies: []Policy{{Name: "p", Pattern: `^q\z`, ApplyTo: "queues", Priority: 3, Definition: Args{"max-length": 1}}},
	}
	got, err := plan.Definitions("v/h")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "bindings": [
    {
      "arguments": {},
      "destination": "q",
      "destination_type": "queue",
      "routing_key": "<k>",
      "source": "theirs",
      "vhost": "v/h"
    },
    {
      "arguments": {
        "x-match": "all"
      },
      "destination": "y",
      "destination_type": "exchange",
      "routing_key": "",
      "source": "x",
      "vhost": "v/h"
    }
  ],
  "exchanges": [
    {
      "arguments": {
        "alternate-exchange": "y"
      },
      "auto_delete": false,
      "durable": true,
      "internal": true,
      "name": "x",
      "type": "topic",
      "vhost": "v/h"
    }
  ],
  "policies": [
    {
      "apply-to": "queues",
      "definition": {
        "max-length": 1
      },
      "name": "p",
      "pattern": "^q\\z",
      "priority": 3,
      "vhost": "v/h"
    }
  ],
  "queues": [
    {
      "arguments": {
        "x-message-ttl": 5
      },
      "auto_delete": false,
      "durable": true,
      "name": "q",
      "vhost": "v/h"
    }
  ]
}
`
	if string(got) != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestDefinitionsRefuseWhatJSONCannotCarry(t *testing.T) {
	t.Parallel()
	const bad = "a\xffb"
	for name, plan := range map[string]Plan{
		"exchange":            {Exchanges: []Exchange{{Name: bad, Type: "topic"}}},
		"queue":               {Queues: []Queue{{Name: bad}}},
		"argument":            {Queues: []Queue{{Name: "q", Args: Args{"x-dead-letter-exchange": bad}}}},
		"name of an argument": {Queues: []Queue{{Name: "q", Args: Args{bad: 1}}}},
		"nested":              {Queues: []Queue{{Name: "q", Args: Args{"l": []any{map[string]any{"k": bad}}}}}},
		"key":                 {Bindings: []Binding{{Key: bad}}},
		"policy":              {Policies: []Policy{{Name: "p", Pattern: bad}}},
	} {
		if got, err := plan.Definitions("/"); err == nil || !strings.Contains(err.Error(), `"a\xffb" is not UTF-8`) {
			t.Errorf("%s: got %s, %v, want an error that names it", name, got, err)
		}
	}
	if _, err := (Plan{Queues: []Queue{{Name: "q"}}}).Definitions(bad); err == nil {
		t.Error("virtual host: got no error, want one")
	}
	if _, err := (Plan{Queues: []Queue{{Name: "q", Args: Args{"f": func() {}}}}}).Definitions("/"); err == nil {
		t.Error("a function as argument: got no error, want one")
	}
}

func FuzzDefinitions(f *testing.F) {
	f.Add("q", "k", "v")
	f.Add("\"\\\u2028</script>", "\x00", "\xff")
	f.Fuzz(func(t *testing.T, name, key, value string) {
		text, err := hostile(name, key, value).Definitions(name)
		if err != nil {
			if utf8.ValidString(name) && utf8.ValidString(key) && utf8.ValidString(value) {
				t.Errorf("got %v, want definitions: all of it is UTF-8", err)
			}
			return
		}
		var read struct {
			Queues []struct {
				Name, Vhost string
				Arguments   map[string]any
			}
			Bindings []struct {
				Source, Destination string
				Key                 string `json:"routing_key"`
			}
		}
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatalf("not JSON: %v\n%s", err, text)
		}
		q, b := read.Queues[0], read.Bindings[0]
		if q.Name != name || q.Vhost != name || q.Arguments["x-dead-letter-exchange"] != value || b.Source != name || b.Destination != name || b.Key != key {
			t.Errorf("got %+v and %+v back, want %q, %q and %q", q, b, name, key, value)
		}
	})
}

// hostile is a plan with the same text everywhere.
func hostile(name, key, value string) Plan {
	return Plan{
		Exchanges: []Exchange{{Name: name, Type: value, Args: Args{"alternate-exchange": value}}},
		Queues:    []Queue{{Name: name, Args: Args{"x-dead-letter-exchange": value, "x-dead-letter-routing-key": key, "x-message-ttl": int64(len(name))}}, {Name: value}},
		Bindings:  []Binding{{Source: name, Destination: name, Key: key}, {Source: value, Destination: key, ToExchange: true, Args: Args{key: value}}},
	}
}
