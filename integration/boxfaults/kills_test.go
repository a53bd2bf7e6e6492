package boxfaults

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/conformance/seeds"
)

// target is a database that is killed again and again.
type target struct {
	name    string
	service string // of scripts/services; empty: the database has no server
	store   func(testing.TB) store

	// delay is by how many milliseconds the server's disk is slowed. Databases let others see what a transaction has done before it is on
	// disk, and a slow disk makes that time longer: above all with MariaDB, which commits in memory first. MySQL and PostgreSQL, which
	// sync many files when they start after a crash, would take too long with the same delay.
	delay int
}

// targets are all databases. sqlite_test.go adds one.
var targets = []target{
	{"PostgreSQL", "postgres", asyncPostgresStore, 10}, {"MariaDB", "mariadb", mariaStore, 40}, {"MySQL", "mysql", mysqlStore, 5},
}

// heavy is a load with which many transactions commit at the same time, and relays read them at once.
var heavy = load{Writers: 16, Rest: 40 * time.Millisecond, Workers: 24, Crowd: 300, Keys: 8}

// TestDatabaseKills kills a database's server again and again while transactions commit, and audits. SQLite has no server: all
// processes that use the file are killed. It prints one line for each database.
//
// REHOP_FAULTS=long kills more often. REHOP_FAULTS_KILLS sets how many kills there are, REHOP_FAULTS_SEED the times of the kills.
// The first fault ends the test; see REHOP_FAULTS_UNTIL in inspection_test.go.
func TestDatabaseKills(t *testing.T) {
	lines := make([]string, len(targets))
	t.Cleanup(func() {
		for _, line := range lines {
			if line != "" {
				fmt.Println(line)
			}
		}
	})
	own.stopAfter(t)
	wanted := wantedKills(t)
	for i, target := range targets {
		t.Run(target.name, func(t *testing.T) {
			t.Parallel()
			if target.service != "" {
				own.startSlow(t, target.delay, target.service)
			}
			lines[i] = target.besiege(t, wanted)
		})
	}
}

// wantedKills is how many times to kill each database.
func wantedKills(t testing.TB) int {
	t.Helper()
	if text := os.Getenv("REHOP_FAULTS_KILLS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("REHOP_FAULTS_KILLS: %q is not a positive number", text)
		}
		return n
	}
	if long() {
		return 150
	}
	return 4
}

// besiege kills the database until enough kills have struck, or a fault was found. It returns the line for the database.
func (g target) besiege(t testing.TB, wanted int) (line string) {
	t.Helper()
	began, seed := time.Now(), seeds.Of(t)
	t.Logf("seed %d", seed)
	s := newScene(t, g.store(t), embeddedBroker, heavy, seed)
	version := s.store.ask(t, s.db)
	s.begin()
	inspection := newInspection(s)
	var found string
	for tries := 0; s.kills < wanted && tries < 2*wanted && found == ""; tries++ {
		s.progress()
		s.work()
		began, committed, underway := time.Now(), 0, 0
		s.books.read(func() { committed, underway = len(s.books.confirmed), s.books.underway() })
		struck := s.killStore(g.delay)
		if struck {
			s.kills++
		}
		t.Logf("kill %d: struck=%v confirmed=%d underway=%d, started after %v", s.kills, struck, committed, underway, time.Since(began).Round(time.Millisecond))
		found = inspection.next()
	}
	limit := standstill
	switch {
	case found != "":
		t.Logf("after %d kills: %s", s.kills, found)
		limit = 10 * time.Second // the test has failed, there is no need to wait for long
	case s.kills < wanted:
		t.Errorf("inconclusive: only %d of %d kills have broken transactions", s.kills, 2*wanted)
	}
	r := s.finishWithin(limit)
	if found != "" && !r.wrong() {
		t.Errorf("a fault that was found at work is not in the audit: %s", found)
	}
	// The broker is there all the time, so each copy is from another relay, or from one that was killed.
	if r.repeated > 0 {
		t.Errorf("%d copies were sent by relays that had sent the same messages before, want none", r.repeated)
	}
	return fmt.Sprintf("db=%s version=%s kills=%d committed=%d lost=%d invented=%d effects-twice=%d db-lost=%d overtaken=%d copies=%d unexplained-copies=%d seconds=%.0f "+
		"unpublished=%d without-effect=%d without-second=%d",
		g.name, version, r.kills, r.committed, r.lost(), r.invented, r.effectTwice, r.dbLost, r.overtaken, r.copies, r.repeated, time.Since(began).Seconds(),
		r.unpublished, r.withoutEffect, r.withoutSecond)
}

// work lets the processes work for a random time, so that the next kill strikes at any point of what they do.
func (s *scene) work() {
	time.Sleep(50*time.Millisecond + time.Duration(s.random.Int64N(int64(350*time.Millisecond))))
}

// killStore kills the database and starts it again. It reports whether that has struck work in progress.
func (s *scene) killStore(delay int) bool {
	s.t.Helper()
	if s.store.server() {
		return s.killServer(delay)
	}
	return s.killProcesses()
}

// killServer kills the server, and starts it when both relays have noticed. With a delay, its disk is slow then. It reports whether that
// has broken a writer's transaction.
func (s *scene) killServer(delay int) bool {
	s.t.Helper()
	broken := s.writer.written(wordBroken)
	var faults [len(s.relays)]int
	for i, r := range s.relays {
		faults[i] = r.written(wordFault)
	}
	if err := s.store.Kill(); err != nil {
		s.t.Fatal(err)
	}
	for i, r := range s.relays {
		r.await(wordFault, faults[i]+1)
	}
	own.restart(s.t, delay, s.store.Node)
	return s.writer.written(wordBroken) > broken
}

// killProcesses kills all processes that use the database, and starts others. It reports whether messages were under way.
func (s *scene) killProcesses() bool {
	s.t.Helper()
	underway := 0
	s.books.read(func() { underway = s.books.underway() })
	all := append(s.relays[:], s.writer, s.consumer)
	s.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var dying sync.WaitGroup
	for _, p := range all {
		dying.Go(func() {
			if !p.kill() {
				s.t.Errorf("the %s had ended before it was killed: %v", p.role, p.err)
			}
		})
	}
	dying.Wait()
	s.spawnAll()
	return underway > 0
}
