package program

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestEnvironment(t *testing.T) {
	t.Setenv("ERL_FLAGS", "leak")
	t.Setenv("PATH", "/somewhere")
	got := Environment("/home", "A=b")
	want := []string{"PATH=/somewhere:" + SystemPath, "HOME=/home", "LANG=C.UTF-8", "A=b"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// In a tree, programs are those of the tree, whatever the caller's PATH, and the mounts are in a namespace of their own.
func TestCommandInTree(t *testing.T) {
	c := Program{Args: []string{"/usr/bin/epmd", "-names"}, Env: []string{"PATH=/somewhere", "A=b"}, Tree: "/tree"}.Command()
	if want := []string{"/proc/self/exe", EnterCommand, "/tree", "/usr/bin/epmd", "-names"}; !slices.Equal(c.Args, want) {
		t.Errorf("got arguments %v, want %v", c.Args, want)
	}
	if env := c.Environ(); !slices.Contains(env, "PATH="+SystemPath) || slices.Contains(env, "PATH=/somewhere") {
		t.Errorf("got environment %v, want the PATH of a Debian", env)
	}
	if c.SysProcAttr.Unshareflags&syscall.CLONE_NEWNS == 0 {
		t.Error("its mounts would be seen by others")
	}
	if user := c.SysProcAttr.Unshareflags&syscall.CLONE_NEWUSER != 0; user != (os.Getuid() != 0) {
		t.Errorf("in a user namespace: %v, want that for all but root", user)
	}
}

// In a network namespace the program is started by ip, which would take /proc/self/exe for itself.
func TestCommandInNetwork(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := Program{Args: []string{"/usr/bin/epmd"}, Tree: "/tree", Network: "space"}.Command()
	if want := []string{"ip", "netns", "exec", "space", self, EnterCommand, "/tree", "/usr/bin/epmd"}; !slices.Equal(c.Args, want) {
		t.Errorf("got arguments %v, want %v", c.Args, want)
	}
}

func TestAttach(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 1} {
		code, err := Program{Args: []string{"/bin/sh", "-c", script}}.Attach()
		if err != nil || code != want {
			t.Errorf("%s: got code %d, %v, want %d", script, code, err, want)
		}
	}
	if _, err := (Program{Args: []string{"/no/such/program"}}).Attach(); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("got error %v, want one that names the program", err)
	}
}

func TestEnterFails(t *testing.T) {
	if err := Enter("/no/such/tree", []string{"/bin/true"}); err == nil || !strings.Contains(err.Error(), "/no/such/tree") {
		t.Errorf("got error %v, want one that names the tree", err)
	}
}
