package boxfaults

import (
	"os"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/internal/conformance/seeds"
)

func TestMain(m *testing.M) {
	if err := mysql.SetLogger(&mysql.NopLogger{}); err != nil { // it would log each connection that is cut
		panic(err)
	}
	if text := os.Getenv(childRole); text != "" {
		os.Exit(beChild(text))
	}
	kit.AtOnce(len(targets))
	own.stopWhenInterrupted()
	code := m.Run()
	total.print()
	os.Exit(code)
}

// long reports whether faults strike often, and also with a real RabbitMQ.
func long() bool { return os.Getenv("REHOP_FAULTS") == "long" }

// total is the sum of what TestBoxFaults has found, for TestMain to print.
var total = &ledger{}

// TestBoxFaults has writers, two relays and a consumer with an inbox at work, strikes with one fault after the other, and audits.
// REHOP_FAULTS=long strikes more often; REHOP_FAULTS_SEED repeats the order of the faults.
func TestBoxFaults(t *testing.T) {
	own.stopAfter(t)
	services := []string{"postgres", "mariadb", "mysql"}
	stages := []stage{{"PostgreSQL", postgresStore, embeddedBroker}, {"MariaDB", mariaStore, embeddedBroker}, {"MySQL", mysqlStore, embeddedBroker}}
	if long() {
		services = append(services, "rabbitmq")
		stages = append(stages, stage{"RabbitMQ", postgresStore, rabbitBroker})
	}
	own.start(t, services...)
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
	broker func(testing.TB) broker
}

// leisurely is a load with which a fault strikes where it is meant to.
var leisurely = load{Writers: 4, Rest: 40 * time.Millisecond, Workers: 4, BatchSize: 50, Crowd: 300, Keys: 5}

func (st stage) play(t *testing.T) {
	t.Helper()
	seed := seeds.Of(t)
	s := newScene(t, st.store(t), st.broker, leisurely, seed)
	s.useProxy()
	s.begin()
	for _, strike := range s.strikes() {
		s.strike(strike)
	}
	total.add(s.finish())
}
