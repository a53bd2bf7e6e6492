package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/tools/services/internal/export"
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
