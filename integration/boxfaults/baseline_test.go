package boxfaults

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/rehop/rehop/integration/kit"
)

// seededBug is a defect that TestDatabaseKills must find.
type seededBug struct {
	name     string
	database string
	edits    []kit.Edit
	shows    []string // fields of the line, one of which must not be 0
}

var (
	withoutBarrier = kit.Edit{File: "outbox/dispatch.go", Before: "next, err = v.barrier(ctx, shards)", After: "next, err = 0, nil"}
	withoutNonce   = kit.Edit{File: "internal/sqltext/row.go", Before: `const is = "line.id = chosen.number AND line.nonce = chosen.nonce"`, After: `const is = "line.id = chosen.number"`}
	forgetful      = kit.Edit{File: "inbox/handler.go", Before: "args := []any{consumer, []byte(id)}", After: "args := []any{consumer, []byte(id + time.Now().String())}"}
	hasty          = kit.Edit{File: "outbox/record.go", Before: "if b.term.over() || ctx.Err() != nil {", After: "if tries > 0 {"}
	unremembered   = kit.Edit{File: "outbox/owed.go", Before: "return o.rows[r.identity()] || o.wasWritten(r.identity())", After: "return false"}
)

var seededBugs = []seededBug{
	{"barrier-removed", "MariaDB", []kit.Edit{withoutBarrier}, []string{"invented", "effects-twice"}},
	// With the barrier, a row that is published survives a crash, and no other row gets its number.
	{"barrier-removed-and-rows-named-by-number", "MariaDB", []kit.Edit{withoutBarrier, withoutNonce}, []string{"lost"}},
	{"inbox-forgets", "MariaDB", []kit.Edit{forgetful}, []string{"effects-twice"}},
	// One of the two edits alone does no harm here: outcomes that are given up are remembered, and MariaDB is back before a lease ends.
	{"outcomes-given-up-and-forgotten", "MariaDB", []kit.Edit{hasty, unremembered}, []string{"unexplained-copies"}},
	{"barrier-removed", "PostgreSQL", []kit.Edit{withoutBarrier}, []string{"invented", "effects-twice"}},
}

// bugKills is how many kills may be needed to find a bug.
const bugKills = 300

// TestDatabaseKillsBaseline shows that TestDatabaseKills can fail: it builds this test with a bug in the product, and runs it until the
// bug is found.
func TestDatabaseKillsBaseline(t *testing.T) {
	if os.Getenv("REHOP_FAULTS") != "baseline" {
		t.Skip("make faults-sql-baseline runs it")
	}
	for _, bug := range seededBugs {
		t.Run(bug.name+"/"+bug.database, func(t *testing.T) { bug.find(t) })
	}
	t.Run("rows-named-by-number", namedByNumber)
}

// namedByNumber: with the barrier, rows that are published survive a crash, so only a failover, a restore or a reset of the sequence gives
// their numbers to others. The suite's cases of those find this bug on each database.
func namedByNumber(t *testing.T) {
	program := kit.Rebuild(t, "sqlboxes", withoutNonce)
	for _, database := range []string{"Postgres", "MariaDB", "MySQL"} {
		command := exec.Command(program, "-test.run=^Test"+database+"$/^restore$/^NumberOfAnother$", "-test.v")
		out, err := command.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "message with the same number") {
			t.Errorf("seeded=rows-named-by-number was not caught on %s: %v\n%s", database, err, out)
			continue
		}
		fmt.Printf("seeded=rows-named-by-number caught by restore/NumberOfAnother: db=%s\n", database)
	}
}

func (b seededBug) find(t *testing.T) {
	t.Helper()
	command := exec.Command(kit.Rebuild(t, "boxfaults", b.edits...), "-test.run=^TestDatabaseKills$/^"+b.database+"$", "-test.v", "-test.timeout=60m")
	command.Env = append(os.Environ(), "REHOP_FAULTS=long", fmt.Sprint("REHOP_FAULTS_KILLS=", bugKills), "REHOP_FAULTS_UNTIL="+strings.Join(b.shows, ","))
	out, err := command.CombinedOutput()
	line := regexp.MustCompile(`(?m)^db=.*$`).Find(out)
	if line == nil {
		t.Fatalf("the test has printed no line about the database: %v\n%s", err, out)
	}
	fields := make(map[string]string)
	for field := range strings.FieldsSeq(string(line)) {
		name, value, _ := strings.Cut(field, "=")
		fields[name] = value
	}
	for _, name := range b.shows {
		if n := fields[name]; n != "0" && n != "" {
			fmt.Printf("seeded=%s caught after %s kills: lost=%s invented=%s effects-twice=%s overtaken=%s unexplained-copies=%s db=%s\n",
				b.name, fields["kills"], fields["lost"], fields["invented"], fields["effects-twice"], fields["overtaken"], fields["unexplained-copies"], b.database)
			return
		}
	}
	t.Errorf("seeded=%s was not caught, want one of %s: %s\n%s", b.name, b.shows, line, out)
}
