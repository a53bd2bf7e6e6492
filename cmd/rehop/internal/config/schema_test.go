package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// schema is a JSON Schema, as far as that of a rehop.yaml needs it.
type schema struct {
	Ref               string             `json:"$ref"`
	Type              any                `json:"type"`
	Description       string             `json:"description"`
	Properties        map[string]*schema `json:"properties"`
	PatternProperties map[string]*schema `json:"patternProperties"`
	PropertyNames     *schema            `json:"propertyNames"`
	Additional        json.RawMessage    `json:"additionalProperties"`
	Required          []string           `json:"required"`
	MinProperties     int                `json:"minProperties"`
	MaxProperties     *int               `json:"maxProperties"`
	Items             *schema            `json:"items"`
	AnyOf             []*schema          `json:"anyOf"`
	Enum              []any              `json:"enum"`
	Pattern           string             `json:"pattern"`
	Minimum           *float64           `json:"minimum"`
	Defs              map[string]*schema `json:"$defs"`

	// For people and editors, without effect on what is valid.
	Schema  string `json:"$schema"`
	Comment string `json:"$comment"`
	Title   string `json:"title"`
	Default any    `json:"default"`
}

// schemas is the whole schema.
type schemas struct{ root *schema }

// loadSchema fails if the schema has a keyword that this test does not know, and so would not check.
func loadSchema(t *testing.T) schemas {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(string(config.Schema())))
	decoder.DisallowUnknownFields()
	var root schema
	if err := decoder.Decode(&root); err != nil {
		t.Fatal(err)
	}
	return schemas{&root}
}

// alternatives are what a value can be: a schema without references, or those of its anyOf.
func (s schemas) alternatives(of *schema) []*schema {
	if name, is := strings.CutPrefix(of.Ref, "#/$defs/"); is {
		target, ok := s.root.Defs[name]
		if !ok {
			panic("the schema has no definition " + name)
		}
		return s.alternatives(target)
	}
	if len(of.AnyOf) == 0 {
		return []*schema{of}
	}
	var all []*schema
	for _, one := range of.AnyOf {
		all = append(all, s.alternatives(one)...)
	}
	return all
}

// named is the schema of the values of a mapping with any names, or nil.
func (of *schema) named() *schema {
	var values schema
	if len(of.Additional) == 0 || json.Unmarshal(of.Additional, &values) != nil {
		return nil // true or false
	}
	return &values
}

// faults returns why a value does not match.
func (s schemas) faults(value any, of *schema, at string) []string {
	var all []string
	alternatives := s.alternatives(of)
	for _, one := range alternatives {
		faults := s.faultsOfOne(value, one, at)
		if len(faults) == 0 {
			return nil
		}
		all = append(all, faults...)
	}
	return all
}

func (s schemas) faultsOfOne(value any, of *schema, at string) (all []string) {
	fault := func(format string, args ...any) { all = append(all, at+": "+fmt.Sprintf(format, args...)) }
	if of.Type != nil && !slices.ContainsFunc(listOf(of.Type), func(kind any) bool { return isKind(value, kind.(string)) }) {
		fault("got %v, want %v", value, of.Type)
		return all
	}
	if of.Enum != nil && !slices.ContainsFunc(of.Enum, func(one any) bool { return fmt.Sprint(one) == fmt.Sprint(value) }) {
		fault("got %v, want one of %v", value, of.Enum)
	}
	if text, is := value.(string); is && of.Pattern != "" && !regexp.MustCompile(of.Pattern).MatchString(text) {
		fault("got %q, want %s", text, of.Pattern)
	}
	if number, is := value.(int); is && of.Minimum != nil && float64(number) < *of.Minimum {
		fault("got %d, want at least %v", number, *of.Minimum)
	}
	switch v := value.(type) {
	case []any:
		if of.Items != nil {
			for i, item := range v {
				all = append(all, s.faults(item, of.Items, fmt.Sprintf("%s[%d]", at, i))...)
			}
		}
	case map[string]any:
		all = append(all, s.faultsOfMapping(v, of, at)...)
	}
	return all
}

func (s schemas) faultsOfMapping(v map[string]any, of *schema, at string) (all []string) {
	fault := func(format string, args ...any) { all = append(all, at+": "+fmt.Sprintf(format, args...)) }
	if len(v) < of.MinProperties || of.MaxProperties != nil && len(v) > *of.MaxProperties {
		fault("got %d keys", len(v))
	}
	for _, key := range of.Required {
		if _, ok := v[key]; !ok {
			fault("%s is missing", key)
		}
	}
	for key, value := range v {
		if of.PropertyNames != nil {
			all = append(all, s.faults(key, of.PropertyNames, at+": the key "+key)...)
		}
		property, known := of.Properties[key]
		for pattern, other := range of.PatternProperties {
			if !known && regexp.MustCompile(pattern).MatchString(key) {
				property, known = other, true
			}
		}
		switch others := of.named(); {
		case known:
			all = append(all, s.faults(value, property, at+"."+key)...)
		case others != nil:
			all = append(all, s.faults(value, others, at+"."+key)...)
		case string(of.Additional) == "false":
			fault("unknown key %s", key)
		}
	}
	return all
}

func listOf(value any) []any {
	if list, is := value.([]any); is {
		return list
	}
	return []any{value}
}

func isKind(value any, kind string) bool {
	switch value.(type) {
	case nil:
		return kind == "null"
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case int:
		return kind == "integer" || kind == "number"
	case float64:
		return kind == "number"
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	}
	return false
}

// stringKeys turns keys of YAML that are numbers into texts, as an editor does.
func stringKeys(value any) any {
	switch v := value.(type) {
	case map[any]any:
		out := make(map[string]any)
		for key, one := range v {
			out[fmt.Sprint(key)] = stringKeys(one)
		}
		return out
	case map[string]any:
		for key, one := range v {
			v[key] = stringKeys(one)
		}
	case []any:
		for i, one := range v {
			v[i] = stringKeys(one)
		}
	}
	return value
}

func (s schemas) faultsOfText(t *testing.T, text string) []string {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return s.faults(stringKeys(value), s.root, "the file")
}

// odd is no key of any mapping, and like none.
const odd = "qqqqqqqqqqqqqqqqqqqqqqqq: 1"

// keysAt are the keys that the reader accepts in place of % in a text, or nil if it accepts no mapping there.
func keysAt(t *testing.T, text string) []string {
	t.Helper()
	_, err := config.Parse("f", []byte(strings.Replace(text, "%", odd, 1)), env())
	var faults config.Faults
	if !errors.As(err, &faults) {
		return nil
	}
	for _, f := range faults {
		if list := listed.FindStringSubmatch(f.Text); list != nil && strings.Contains(f.Text, "qqqq") {
			return strings.FieldsFunc(list[1], func(r rune) bool { return r == ',' || r == ' ' })
		}
	}
	return nil
}

// Every key that the reader accepts is in the schema, and the other way round. A mapping of the reader where the schema has none is found, too.
func TestSchemaHasTheKeysOfTheReader(t *testing.T) {
	t.Parallel()
	s := loadSchema(t)
	mappings, keys := 0, 0
	var walk func(of *schema, text string)
	walk = func(of *schema, text string) {
		accepted, checked := keysAt(t, text), false
		for _, one := range s.alternatives(of) {
			if others := one.named(); others != nil {
				checked = true
				walk(others, strings.Replace(text, "%", "a: {%}", 1))
				continue
			}
			if one.Properties == nil {
				continue
			}
			checked = true
			mappings++
			inSchema := slices.Sorted(maps.Keys(one.Properties))
			keys += len(inSchema)
			for _, key := range accepted {
				if !slices.Contains(inSchema, key) {
					t.Errorf("schema.json does not have the key %s, which the reader accepts in place of %%: %s", key, text)
				}
			}
			for _, key := range inSchema {
				if !slices.Contains(accepted, key) {
					t.Errorf("schema.json has the key %s, which the reader does not accept in place of %%: %s", key, text)
				}
				property := one.Properties[key]
				if property.Description == "" && text != "flows: {a: {layout: {%}}}" && text != "exchanges: {a: {layout: {%}}}" {
					t.Errorf("schema.json has no description of %s in place of %%: %s", key, text)
				}
				walk(property, strings.Replace(text, "%", key+": {%}", 1))
			}
		}
		if !checked && accepted != nil {
			t.Errorf("the reader accepts a mapping with the keys %v in place of %%, and schema.json has none: %s", accepted, text)
		}
	}
	walk(s.root, "%")
	if mappings < 19 || keys < 100 {
		t.Errorf("found only %d keys in %d mappings", keys, mappings)
	}
}

// choices finds the words of a fault about a word that is none of them.
var choices = regexp.MustCompile(`"zzzzzzzzzzzzzzzz" must be one of (.*)`)

// Where the reader accepts some words only, the schema has the same.
func TestSchemaHasTheWordsOfTheReader(t *testing.T) {
	t.Parallel()
	s := loadSchema(t)
	found := 0
	var walk func(of *schema, text string)
	walk = func(of *schema, text string) {
		var words []string
		for _, one := range s.alternatives(of) {
			for _, word := range one.Enum {
				if text, is := word.(string); is && !strings.ContainsAny(text, ".") && text != "true" && text != "false" {
					words = append(words, text)
				}
			}
			if one.Items != nil {
				walk(one.Items, strings.Replace(text, "%", "[%]", 1))
			}
			if others := one.named(); others != nil {
				walk(others, strings.Replace(text, "%", "{1: %}", 1))
			}
			for key, property := range one.Properties {
				walk(property, strings.Replace(text, "%", "{"+key+": %}", 1))
			}
		}
		_, err := config.Parse("f", []byte(strings.Replace(text, "%", "zzzzzzzzzzzzzzzz", 1)), env())
		var accepted []string
		if err != nil {
			if list := choices.FindStringSubmatch(err.Error()); list != nil {
				accepted = strings.Split(list[1], ", ")
			}
		}
		if accepted == nil {
			return
		}
		found++
		slices.Sort(words)
		slices.Sort(accepted)
		if !slices.Equal(slices.Compact(words), accepted) {
			t.Errorf("in place of %%: %s: schema.json has %v, and the reader accepts %v", text, words, accepted)
		}
	}
	walk(s.root, "%")
	if found < 10 {
		t.Errorf("found only %d places with words", found)
	}
}

// Files that the reader accepts are valid by the schema: the examples, what the documentation shows, and all forms of values.
func TestSchemaAcceptsFiles(t *testing.T) {
	t.Parallel()
	s := loadSchema(t)
	texts := map[string]string{"whole": whole, "what rehop init writes": string(config.Example())}
	root := filepath.Join("..", "..", "..", "..")
	for _, pattern := range []string{filepath.Join("..", "..", "example", "*.yaml"), filepath.Join(root, "deploy", "*", "rehop.yaml")} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			texts[path] = readText(t, path)
		}
	}
	for _, page := range []string{"README.md", "docs/flows.md", "docs/quickstart.md", "docs/console.md"} {
		rest := readText(t, filepath.Join(root, filepath.FromSlash(page)))
		for i := 0; ; i++ {
			_, after, found := strings.Cut(rest, "```yaml\n")
			if !found {
				break
			}
			texts[fmt.Sprint(page, " ", i)], rest, _ = strings.Cut(after, "```")
		}
	}
	for text, values := range map[string][]string{
		"rabbitmq: %": {"3.10", `"3.10"`, "4.0", "4.3"},
		"max-body: %": {"65536", "64KiB", `"16 MiB"`, "${SIZE}"},
		"drain: %":    {"1h30m", "500ms", "1.5s", "${DRAIN}"},
		"flows: {a: {target: {command: [x]}, retry: %}}":           {"none", "[]", "10s", "[1s, 1h]", "{steps: 1s}", "{first: 1s, max: 1h, attempts: 3, jitter: 0.1, factor: 2}"},
		"flows: {a: {target: {command: [x]}, rate: %}}":            {"100/s", "{limit: 0.5/m, burst: 2}"},
		"flows: {a: {target: {command: [x]}, layout: %}}":          {"native", "{native: {}}", "dlx", "{tiers: {tiers: [1s], waits: [1s]}}"},
		"flows: {a: {target: {command: {run: x, exit-codes: %}}}}": {"{2: failed}", `{"3": unavailable}`},
		"flows: {a: {target: {command: [x]}, pause-when-down: %}}": {"true", `"true"`, "'${YES}'"},
		"exchanges: {a: %}": {"", "topic", "{type: fanout}", "{type: direct, layout: pubsub}"},
		"console: {proxy: {default-role: viewer, addresses: %}}":             {"10.0.0.1", "[10.0.0.1, '10.1.0.0/16', '2001:db8::/32']"},
		"console: {mask: {headers: %}}":                                      {"token", "[token, x-*]"},
		"users: {a: %}":                                                      {"secret", "12345", "{password: x, tags: [monitoring]}", "{password: x, tags: administrator}"},
		"flows: {a: {target: {command: [x]}, arguments: {x-one: %}}}":        {"null", "5", "text", "true", "1.5"},
		"flows: {a: {target: {command: [x]}, order-by: %}}":                  {"key", "type", "header.id", "body.order.id"},
		"flows: {a: {target: {http: %}}}":                                    {"http://h/", "{url: http://h/, secrets: [], headers: {a: 1}}"},
		"flows: {a: {exchange: x, keys: %, target: {forward: {key: b}}}}":    {"one", "[one, two]"},
		"{x-mine: {a: [1]}, outboxes: {a: {database: 'sqlite:f', poll: %}}}": {"1s"},
	} {
		for _, value := range values {
			whole := strings.Replace(text, "%", value, 1)
			texts[whole] = whole
		}
	}
	for name, text := range texts {
		_, err := config.Parse(name, []byte(text), func(name string) (string, bool) {
			for part, value := range map[string]string{"SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "SIZE": "5MiB", "DRAIN": "5s", "YES": "true"} {
				if strings.Contains(name, part) {
					return value, true
				}
			}
			return "x", true
		})
		if err != nil {
			t.Errorf("%s: the reader does not accept it: %v", name, err)
		}
		if faults := s.faultsOfText(t, text); len(faults) > 0 {
			t.Errorf("%s: by the schema:\n%s", name, strings.Join(faults, "\n"))
		}
	}
}

// What the reader refuses because of its form, the schema refuses.
func TestSchemaRefusesFaults(t *testing.T) {
	t.Parallel()
	s := loadSchema(t)
	for _, text := range []string{
		"flow: {}", "flows: [a]", "flows: {a: {}}", "flows: {a: {quue: x, target: {command: [x]}}}", "flows: {a: {target: {}}}",
		"flows: {a: {target: {command: [x], http: 'http://h/'}}}", "flows: {a: {target: {http: {timeout: 1s}}}}", "flows: {a: {target: {command: [x]}, concurrency: many}}",
		"flows: {a: {target: {command: [x]}, retry: [10]}}", "flows: {a: {target: {command: [x]}, rate: fast}}", "flows: {a: {target: {command: [x]}, rate: {burst: 2}}}",
		"flows: {a: {target: {command: [x]}, layout: square}}", "flows: {a: {target: {command: [x]}, layout: {dlx: {}, tiers: {}}}}",
		"flows: {a: {target: {command: [x]}, order-by: name}}", "flows: {a: {target: {command: [x]}, pause-when-down: maybe}}",
		"flows: {a: {target: {command: {run: x, exit-codes: {one: failed}}}}}", "flows: {a: {target: {command: {run: x, exit-codes: {1: lost}}}}}",
		"drain: 10", "max-body: -1", "max-body: big", "rabbitmq: 4.5", "queue-type: stream", "exchanges: {a: round}", "users: {a: {password: x, tags: [king]}}", "users: {a: {tags: [management]}}",
		"console: {read-only: maybe}", "console: {mask: [a]}", "console: {proxy: {default-role: viewer}}", "console: {proxy: {addresses: 10.0.0.1, roles: {a: king}}}",
		"console: {url: 'https://h/', oidc: {issuer: 'https://h', default-role: viewer}}", "outboxes: {a: {}}", "tls: {pem: x}", "listen: 127.0.0.1:1",
	} {
		if _, err := config.Parse("f", []byte(text), env()); err == nil {
			t.Errorf("%s: the reader accepts it", text)
		}
		if len(s.faultsOfText(t, text)) == 0 {
			t.Errorf("%s: the schema accepts it", text)
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
