package debian

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMissing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bunny-2.1.gemspec")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := Missing(
		Want{"a-file", file},
		Want{"a-pattern", filepath.Dir(file) + "/bunny-*.gemspec"},
		Want{"no-file", file + "x"},
		Want{"a-program", "sh"},
		Want{"no-program", "no-program-has-this-name"},
	)
	if want := []string{"no-file", "no-program"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestUpstream(t *testing.T) {
	for version, want := range map[string]string{
		"4.3.6-1":            "4.3.6",
		"3.10.8-1.1+deb12u1": "3.10.8",
		"1:29.1.2+dfsg-1":    "29.1.2",
		"9.7.4":              "9.7.4",
		"":                   "",
	} {
		if got := upstream(version); got != want {
			t.Errorf("version %q: got %q, want %q", version, got, want)
		}
	}
}

// The reason of a failed installation is on one line, and is the last line about errors.
func TestReason(t *testing.T) {
	failed := errors.New("exit status 100")
	said := "Reading package lists...\nE: one\nE: two\nE: three\nservices: failed: apt-get install x: exit status 100\n"
	if got, want := reason(said, failed), "two; three; apt-get install x: exit status 100"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := reason("nothing about errors\n", failed); got != failed.Error() {
		t.Errorf("got %q, want %q", got, failed)
	}
}

func TestLastError(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	write := func(text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("I: Retrieving\nW: slow mirror\n")
	if got := lastError(name); got != "slow mirror" {
		t.Errorf("got %q, want the warning where there is no error", got)
	}
	write("W: slow mirror\nE: Couldn't download\nE: gave up\nW: later\n")
	if got := lastError(name); got != "gave up" {
		t.Errorf("got %q, want the last error", got)
	}
	if got := lastError(name + "x"); got != "" {
		t.Errorf("got %q of no log", got)
	}
}

// The machine's way to fetch holds in a tree; what it fetches does not.
func TestFetching(t *testing.T) {
	const settings = `Acquire "";
Acquire::Languages "none";
Acquire::IndexTargets::deb::Packages::MetaKey "x";
Acquire::http::Proxy "http://127.0.0.1:3128";
`
	got := fetching([]byte(settings))
	want := "Acquire::Languages \"none\";\nAcquire::http::Proxy \"http://127.0.0.1:3128\";\n"
	if !bytes.Equal(got, []byte(want)) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTreeThatIsNotThere(t *testing.T) {
	tree := Tree{Suite: "nosuch", Name: "thing", Packages: []string{"thing"}}
	if tree.Complete() || tree.Version("thing") != "" {
		t.Errorf("got complete %v, version %q, want false and none", tree.Complete(), tree.Version("thing"))
	}
	if len(tree.Wants()) == 0 {
		t.Error("it can be installed without debootstrap")
	}
	if !strings.HasSuffix(tree.Root(), "/nosuch-thing") {
		t.Errorf("got root %s", tree.Root())
	}
}
