package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/tools/services/internal/export"
	"github.com/rehop/rehop/tools/services/internal/network"
	"github.com/rehop/rehop/tools/services/internal/rabbitmq"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// fake is a service that fails where a test wants.
type fake struct {
	name                          string
	needs                         []string
	onPrepare, onLaunch, onAwait  error
	prepared, launched, waitedFor bool
}

func (f *fake) Service() string          { return f.name }
func (f *fake) Needs() []string          { return f.needs }
func (f *fake) Packages() []string       { return nil }
func (f *fake) Prepare(io.Writer) error  { f.prepared = true; return f.onPrepare }
func (f *fake) Launch() error            { f.launched = true; return f.onLaunch }
func (f *fake) Await() error             { f.waitedFor = true; return f.onAwait }
func (f *fake) InstalledVersion() string { return "" }
func (f *fake) Env() []export.Variable {
	return []export.Variable{{Name: "REHOP_" + strings.ToUpper(f.name), Value: "yes"}}
}
func (f *fake) Missing() []string {
	if f.onPrepare != nil || f.onLaunch != nil || f.onAwait != nil || !f.waitedFor {
		return []string{f.name}
	}
	return nil
}

// What one service lacks is reported, by up and by env, and the others start, unless they need it.
func TestUpWithFailures(t *testing.T) {
	good := &fake{name: "good"}
	suite := &fake{name: "suite", onPrepare: errors.New("Debian sid cannot be reached")}
	launch := &fake{name: "launch", onLaunch: errors.New("no memory")}
	await := &fake{name: "await", onAwait: errors.New("it ended\nwhile starting")}
	depends := &fake{name: "depends", needs: []string{"launch"}}
	last := &fake{name: "last", needs: []string{"good"}}
	var entries []entry
	for _, f := range []*fake{good, suite, launch, await, depends, last} {
		entries = append(entries, entry{service: f, chosen: true})
	}
	h, log := newHost(t, nil)
	h.lineup.entries = entries

	err := h.bringUp(entries)
	if want := "NOT UP: await depends launch suite"; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got error %v, want %s", err, want)
	}
	if suite.launched || launch.waitedFor || depends.launched {
		t.Errorf("started after a failure: suite %v, launch %v, depends %v", suite.launched, launch.waitedFor, depends.launched)
	}
	if !good.waitedFor || !last.waitedFor {
		t.Errorf("not started although nothing was missing: good %v, last %v", !good.waitedFor, !last.waitedFor)
	}
	reasons := map[string]string{
		"suite":   "not installed: Debian sid cannot be reached",
		"launch":  "no memory",
		"await":   "it ended while starting",
		"depends": "it needs launch, which is not up",
		"good":    "",
		"last":    "",
	}
	for name, want := range reasons {
		if got := h.dir.Missing(name); got != want {
			t.Errorf("%s: got reason %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(log.String(), "services: failed: suite: not installed: Debian sid cannot be reached\n") {
		t.Errorf("got log %q, want a line about the suite", log)
	}

	log.Reset()
	if err := h.env(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(log.String(), "\n")
	if !slices.Contains(lines, "export REHOP_GOOD='yes'") || !slices.Contains(lines, "export REHOP_LAST='yes'") {
		t.Errorf("env prints %q, want what is up", lines)
	}
	if want := "export REHOP_SERVICES_MISSING='suite: not installed: Debian sid cannot be reached; launch: no memory; " +
		"await: it ended while starting; depends: it needs launch, which is not up'"; !slices.Contains(lines, want) {
		t.Errorf("env prints %q, want %q", lines, want)
	}

	// When the cause is gone, so is the reason.
	suite.onPrepare, launch.onLaunch, await.onAwait = nil, nil, nil
	if err := h.bringUp(entries); err != nil {
		t.Fatal(err)
	}
	for name := range reasons {
		if got := h.dir.Missing(name); got != "" {
			t.Errorf("%s is up, and its reason is still %q", name, got)
		}
	}
}

// A release that Debian does not have any more is an error only for those who require all services.
func TestSuiteMovedOn(t *testing.T) {
	for required, want := range map[string]bool{"": false, "0": false, "1": true} {
		h, log := newHost(t, map[string]string{"REHOP_REQUIRE_SERVICES": required})
		moved := &fake{name: "rabbitmq-4.3", onPrepare: &rabbitmq.MovedError{Version: "4.4.0"}}
		var failed error
		h.install([]entry{{service: moved}}, func(_ entry, err error) { failed = err })
		if (failed != nil) != want || want && !strings.Contains(failed.Error(), "has RabbitMQ 4.4.0") {
			t.Errorf("REHOP_REQUIRE_SERVICES=%q: got %v, want an error: %v", required, failed, want)
		}
		if attention := strings.Contains(log.String(), "ATTENTION"); attention == want {
			t.Errorf("REHOP_REQUIRE_SERVICES=%q: got a line with ATTENTION: %v, want %v:\n%s", required, attention, !want, log)
		}
	}
}

// What a test that was killed has left is removed by the next up, with its network.
func TestLeftNetworkIsRemoved(t *testing.T) {
	if reason := network.Lacks(); reason != "" {
		if os.Getenv("REHOP_REQUIRE_SERVICES") == "1" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	owner := exec.Command("/bin/true")
	if err := owner.Run(); err != nil {
		t.Fatal(err)
	}
	// As package lab names it. No process began with the machine, so its owner has ended even if another has its number.
	path, err := os.MkdirTemp("/tmp", fmt.Sprintf("rehop-services-%d-own-%d-0-", os.Getuid(), owner.ProcessState.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(path) })
	h, _ := newHost(t, nil)
	b := choose(t, h) // whose ports nobody else has
	dir, err := state.New(path, "/some/checkout")
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := dir.Lock() // another up on this machine may remove the directory once it is unlocked
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dir.KeepBlock(b), network.Of(dir).Make([]string{"a1"})); err != nil {
		t.Fatal(err)
	}
	space := "/run/netns/" + network.Of(dir).Namespace("a1")
	if _, err := os.Stat(space); err != nil {
		t.Error(err)
	}
	unlock()
	h.removeOrphans()
	for _, left := range []string{path, space} {
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("%s: got %v, want that it is gone", left, err)
		}
	}
}
