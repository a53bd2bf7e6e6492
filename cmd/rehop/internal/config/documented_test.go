package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// listed finds the keys that there are, which a fault lists when none is like the one that was written.
var listed = regexp.MustCompile(`; there are (.*)`)

// Every key of a file is in the reference.
func TestDocumented(t *testing.T) {
	t.Parallel()
	reference, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "flows.md"))
	if err != nil {
		t.Fatal(err)
	}
	keys := make(map[string]bool)
	for _, text := range []string{
		"%", "tls: {%}", "listen: {%}", "listen: {tls: {%}}", "limits: {%}", "log: {%}", "users: {a: {%}}", "users: {a: {permissions: {/: {%}}}}", "users: {a: {topic-permissions: {/: {x: {%}}}}}", "exchanges: {a: {%}}", "flows: {a: {%}}", "flows: {a: {retry: {%}}}", "flows: {a: {rate: {%}}}", "flows: {a: {layout: {%}}}",
		"flows: {a: {layout: {tiers: {%}}}}", "flows: {a: {layout: {dlx: {%}}}}", "flows: {a: {layout: {sneakers: {%}}}}", "flows: {a: {layout: {envelope: {%}}}}",
		"flows: {a: {layout: {pubsub: {%}}}}", "flows: {a: {target: {%}}}", "flows: {a: {target: {http: {%}}}}", "flows: {a: {target: {http: {tls: {%}}}}}", "flows: {a: {target: {command: {%}}}}",
		"flows: {a: {target: {forward: {%}}}}", "outboxes: {a: {%}}", "triage: {%}", "console: {%}", "console: {mask: {%}}", "console: {proxy: {%}}", "console: {oidc: {%}}",
	} {
		_, err := config.Parse("f", []byte(strings.Replace(text, "%", odd, 1)), env())
		var faults config.Faults
		if !errors.As(err, &faults) {
			t.Fatalf("%s: got %v, want faults", text, err)
		}
		found := false
		for _, f := range faults {
			if list := listed.FindStringSubmatch(f.Text); list != nil {
				found = true
				for key := range strings.SplitSeq(list[1], ", ") {
					keys[key] = true
				}
			}
		}
		if !found {
			t.Errorf("%s: no fault lists the keys:\n%v", text, err)
		}
	}
	for key := range keys {
		if !strings.Contains(string(reference), "`"+key+"`") {
			t.Errorf("docs/flows.md does not name the key %s", key)
		}
	}
	if len(keys) < 60 {
		t.Errorf("found only %d keys", len(keys))
	}
}

// The examples are in order.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "example", "*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("got %v, %v, want the examples", files, err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = config.Parse(filepath.Base(path), text, func(name string) (string, bool) {
			if strings.HasSuffix(name, "_SECRET") {
				return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", true
			}
			return "value-of-" + strings.ToLower(name), true
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// The README shows the flow that rehop init writes.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, shown, found := strings.Cut(string(text), "```yaml\n")
	shown, _, ended := strings.Cut(shown, "```")
	if !found || !ended {
		t.Fatal("the README shows no file")
	}
	file, err := config.Parse("README.md", []byte(shown), os.LookupEnv)
	if err != nil || len(file.Flows) == 0 {
		t.Fatalf("got %v and error %v, want flows", file, err)
	}
	written, err := config.Parse("example.yaml", config.Example(), os.LookupEnv)
	if err != nil || !reflect.DeepEqual(file.Flows, written.Flows) {
		t.Errorf("the README shows %+v; rehop init writes %+v, error %v", file.Flows, written, err)
	}
}
