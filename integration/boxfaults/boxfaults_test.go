package boxfaults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/lab"
)

func TestMain(m *testing.M) {
	if err := mysql.SetLogger(&mysql.NopLogger{}); err != nil { // it would log each connection that is cut
		panic(err)
	}
	if text := os.Getenv(childRole); text != "" {
		os.Exit(beChild(text))
	}
	os.Exit(run(m))
}

// long reports whether faults strike often, and a real RabbitMQ too.
func long() bool { return os.Getenv("REHOP_FAULTS") == "long" }

// own are the servers of these tests, and total is what they have found, for TestMain to stop and to print.
var (
	own   = &servers{}
	total = &ledger{}
)

func run(m *testing.M) int {
	// Whoever interrupts the tests does not want the servers to stay.
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		if err := own.stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}()
	code := m.Run()
	if err := own.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	total.print()
	return code
}

// servers are databases, and for long runs a broker, that nobody else uses.
type servers struct {
	mu   sync.Mutex
	down func() error // nil: not started
}

func (s *servers) start(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	names := []string{"postgres", "mariadb"}
	if long() {
		names = append(names, "rabbitmq")
	}
	var err error
	if s.down, err = lab.Own(names...); err != nil {
		t.Fatal(err)
	}
}

func (s *servers) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == nil {
		return nil
	}
	return s.down()
}

// seedOf is that of REHOP_FAULTS_SEED, or a new one.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv("REHOP_FAULTS_SEED")
	if text == "" {
		return rand.Uint64() >> 32
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("REHOP_FAULTS_SEED: %v", err)
	}
	return seed
}

// TestBoxFaults has writers, two relays and a consumer with an inbox at work, strikes with one fault after the other, and audits.
// REHOP_FAULTS=long strikes more often; REHOP_FAULTS_SEED repeats the order of the faults.
func TestBoxFaults(t *testing.T) {
	own.start(t)
	stages := []stage{{"PostgreSQL", postgresStore, embeddedBroker}, {"MariaDB", mariaStore, embeddedBroker}}
	if long() {
		stages = append(stages, stage{"RabbitMQ", postgresStore, rabbitBroker})
	}
	for _, st := range stages {
		t.Run(st.name, func(t *testing.T) {
			if !long() { // else two would kill the same server
				t.Parallel()
			}
			st.play(t)
		})
	}
}

// stage is where a scene takes place.
type stage struct {
	name   string
	store  func(testing.TB) store
	broker func(*scene) broker
}

func (st stage) play(t *testing.T) {
	t.Helper()
	seed := seedOf(t)
	t.Logf("seed %d", seed)
	s := newScene(t, st.store(t), st.broker, seed)
	for _, strike := range s.strikes() {
		s.strike(strike)
	}
	total.add(s.finish())
}

func postgresStore(t testing.TB) store {
	return store{Database: lab.Postgres(t), speaks: dialect.Postgres, commits: []string{"commit\x00"}}
}

func mariaStore(t testing.TB) store {
	// Relays delete there without a transaction around it.
	return store{Database: lab.MariaDB(t), speaks: dialect.MySQL, commits: []string{"COMMIT", "DELETE rehop_outbox"}}
}
