package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/rehop/rehop/tools/services/internal/daemon"
	"github.com/rehop/rehop/tools/services/internal/debian"
	"github.com/rehop/rehop/tools/services/internal/ports"
	"github.com/rehop/rehop/tools/services/internal/program"
	"github.com/rehop/rehop/tools/services/internal/rabbitmq"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// up installs and starts services.
func (h *host) up(names []string) error {
	services, err := h.lineup.choose(names)
	if err != nil {
		return err
	}
	h.removeOrphans()
	// Nearly always all is up: find out without waiting for any lock.
	if h.dir.Block() != 0 && !slices.ContainsFunc(services, func(e entry) bool { return len(e.notServing()) > 0 }) {
		return nil
	}
	return h.bringUp(services)
}

// bringUp installs and starts services, in this order. What one of them lacks does not keep the others from starting.
func (h *host) bringUp(services []entry) error {
	unlock, err := h.lock()
	if err != nil {
		return err
	}
	defer unlock()

	failed := make(map[string]bool)
	fail := func(e entry, reason error) {
		failed[e.Service()] = true
		h.report(fmt.Errorf("%s: %w", e.Service(), reason))
		if err := h.dir.KeepMissing(e.Service(), reason.Error()); err != nil {
			h.report(err)
		}
	}
	h.install(services, fail)
	left := func() []entry {
		return slices.DeleteFunc(slices.Clone(services), func(e entry) bool { return failed[e.Service()] })
	}
	if len(left()) > 0 {
		if err := h.choosePorts(); err != nil {
			return err
		}
	}
	// All are launched before the first is waited for, since starting takes a while.
	for _, e := range left() {
		need := slices.IndexFunc(e.Needs(), func(name string) bool { return failed[name] })
		if need >= 0 {
			fail(e, fmt.Errorf("it needs %s, which is not up", e.Needs()[need]))
		} else if err := e.Launch(); err != nil {
			fail(e, err)
		}
	}
	for _, e := range left() {
		if err := e.Await(); err != nil {
			fail(e, err)
		} else if err := h.dir.KeepMissing(e.Service(), ""); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("NOT UP: %s (the reasons are above)", strings.Join(slices.Sorted(maps.Keys(failed)), " "))
	}
	return nil
}

// lock locks the state directory. One that an older program has made is removed first, with what runs there.
func (h *host) lock() (unlock func(), err error) {
	for {
		unlock, err := h.dir.Lock()
		if err != nil || h.dir.Current() {
			return unlock, err
		}
		h.logf("removing what an older version of this program has started in %s", h.dir.Path)
		err = h.remove(h.dir)
		unlock()
		if err != nil {
			return nil, err
		}
	}
}

// tolerate only reports that a suite has moved on to another release, unless all services are required: the tests of that release
// would run on the other one.
func (h *host) tolerate(err error) error {
	if moved := (*rabbitmq.MovedError)(nil); errors.As(err, &moved) && h.getenv("REHOP_REQUIRE_SERVICES") != "1" {
		h.logf("ATTENTION: %v", moved)
		return nil
	}
	return err
}

// install installs what services need.
func (h *host) install(services []entry, fail func(entry, error)) {
	lacks := func(entries []entry) (packages []string) {
		for _, e := range entries {
			packages = append(packages, e.Packages()...)
		}
		slices.Sort(packages)
		return slices.Compact(packages)
	}
	// All at once is quicker. If that fails, each service has its own try.
	if packages := lacks(services); len(packages) > 0 {
		h.logf("installing %s", strings.Join(packages, " "))
		if err := debian.Install(packages, h.log); err != nil {
			h.logf("could not install all of it: %v", err)
		}
	}
	for _, e := range services {
		var err error
		packages := lacks([]entry{e})
		if len(packages) > 0 {
			err = debian.Install(packages, h.log)
			packages = lacks([]entry{e})
		}
		if len(packages) > 0 {
			fail(e, fmt.Errorf("not installed: %s (%w)", strings.Join(packages, " "), cause(err)))
		} else if err := h.tolerate(e.Prepare(h.log)); err != nil {
			fail(e, fmt.Errorf("not installed: %w", err))
		}
	}
}

// cause is an error, also where an installation failed without a word.
func cause(err error) error {
	if err == nil {
		return errors.New("no reason known")
	}
	return err
}

// choosePorts settles the block of ports and remembers it. The remembered block stays as long as anything runs there; otherwise it
// must still be free (the machine may have been rebooted since).
func (h *host) choosePorts() error {
	claim := daemon.In(h.dir, "claim")
	if b := h.dir.Block(); b != 0 && len(daemon.Pids(h.dir)) > 0 {
		if h.wanted != 0 && h.wanted != b {
			h.logf("REHOP_SERVICES_PORT is ignored: the services already run on ports from %d on", b)
		}
		if claim.Runs() {
			return nil
		}
		return h.claim(claim, b)
	}
	// Others may be choosing for another state directory at this moment.
	unlock, err := state.LockDirectory("/tmp")
	if err != nil {
		return err
	}
	defer unlock()
	listening, err := ports.Listening()
	if err != nil {
		return err
	}
	b, err := ports.Choose(h.wanted, h.dir.Block(), listening)
	if err != nil {
		return err
	}
	if err := h.claim(claim, b); err != nil {
		return err
	}
	return h.dir.KeepBlock(b)
}

// claim has a process listen on the first port of a block, so that nobody else chooses this block before a server listens there.
func (h *host) claim(claim daemon.Daemon, b ports.Block) error {
	unlock, err := claim.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", b.At(ports.Claim)))
	if err != nil {
		return fmt.Errorf("claim ports: %w", err)
	}
	defer l.Close()
	f, err := l.(*net.TCPListener).File()
	if err != nil {
		return fmt.Errorf("claim ports: %w", err)
	}
	defer f.Close()
	return claim.Spawn(program.Program{Args: []string{"/proc/self/exe", claimCommand}, Env: program.Environment(h.dir.Home())}, f)
}
