package triages

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rehop/rehop/triage"
)

func auditCases() []Case {
	return []Case{
		{"Records", func(t *testing.T, b *Bench) {
			head, err := b.Store.AuditHead(b.ctx)
			b.must(err)
			equal(b, "head of nothing", head, triage.Head{})
			for i := range 5 {
				r, err := b.Store.Audit(b.ctx, triage.Entry{Actor: "ann\xff", Action: "run.start", Subject: fmt.Sprint(i), Details: map[string]any{"n": i}})
				b.must(err)
				equal(b, "number", r.Number, int64(i+1))
			}
			records, err := b.Store.AuditRecords(b.ctx, 4, 2)
			b.must(err)
			equal(b, "records", fmt.Sprintln(records[0].Number, records[1].Number, string(records[1].Details), records[1].Actor), "3 2 {\"n\":1} ann\xff\n")
			if _, err := b.Store.Audit(b.ctx, triage.Entry{Details: func() {}}); err == nil {
				t.Error("details that are not JSON: got nil, want an error")
			}
			head, err = b.Store.VerifyAudit(b.ctx, triage.Head{Number: records[0].Number, Hash: records[0].Hash})
			b.must(err)
			equal(b, "head", head.Number, int64(5))
		}},
		{"Tampering", tampering},
		{"AtOnce", func(t *testing.T, b *Bench) {
			const writers, each = 5, 20
			errs := make(chan error, writers)
			for w := range writers {
				store := b.open(triage.Config{})
				go func() {
					for i := range each {
						if _, err := store.Audit(b.ctx, triage.Entry{Actor: fmt.Sprint(w), Action: "test", Subject: fmt.Sprint(i)}); err != nil {
							errs <- err
							return
						}
					}
					errs <- nil
				}()
			}
			for range writers {
				b.must(<-errs)
			}
			head, err := b.Store.VerifyAudit(b.ctx, triage.Head{})
			b.must(err)
			equal(b, "records", head.Number, int64(writers*each))
		}},
	}
}

// tampering: whatever is changed in the table is found.
func tampering(t *testing.T, b *Bench) {
	for i := range 6 {
		_, err := b.Store.Audit(b.ctx, triage.Entry{Actor: "ann", Action: "test", Subject: fmt.Sprint(i), Details: i})
		b.must(err)
	}
	head, err := b.Store.VerifyAudit(b.ctx, triage.Head{})
	b.must(err)
	for name, statements := range map[string][]string{
		"actor":          {"UPDATE rehop_triage_audit SET actor = subject WHERE number = 3"},
		"time":           {"UPDATE rehop_triage_audit SET at = at + 1 WHERE number = 3"},
		"details":        {"UPDATE rehop_triage_audit SET details = actor WHERE number = 4"},
		"hash":           {"UPDATE rehop_triage_audit SET hash = (SELECT h FROM (SELECT hash AS h FROM rehop_triage_audit WHERE number = 1) x) WHERE number = 6"},
		"removed":        {"DELETE FROM rehop_triage_audit WHERE number = 3"},
		"removed, moved": {"DELETE FROM rehop_triage_audit WHERE number = 6", "UPDATE rehop_triage_audit SET number = 6 WHERE number = 5"},
		"first removed":  {"DELETE FROM rehop_triage_audit WHERE number = 1"},
		"reordered": {"UPDATE rehop_triage_audit SET number = 100 WHERE number = 2", "UPDATE rehop_triage_audit SET number = 2 WHERE number = 3",
			"UPDATE rehop_triage_audit SET number = 3 WHERE number = 100"},
		"inserted": {"INSERT INTO rehop_triage_audit (number, at, actor, action, subject, details, hash) SELECT 0, at, actor, action, subject, details, hash FROM rehop_triage_audit WHERE number = 1"},
		"end":      {"DELETE FROM rehop_triage_audit WHERE number > 4"},
		"all":      {"DELETE FROM rehop_triage_audit"},
	} {
		tx, err := b.db.BeginTx(b.ctx, nil)
		b.must(err)
		_, err = tx.ExecContext(b.ctx, "CREATE TABLE backup_audit AS SELECT * FROM rehop_triage_audit")
		b.must(err)
		for _, s := range statements {
			if _, err := tx.ExecContext(b.ctx, s); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
		b.must(tx.Commit())
		if _, err := b.Store.VerifyAudit(b.ctx, head); !errors.Is(err, triage.ErrAuditBroken) {
			t.Errorf("%s: got %v, want ErrAuditBroken", name, err)
		}
		if _, err := b.Store.VerifyAudit(b.ctx, triage.Head{}); (err == nil) != (name == "end" || name == "all") {
			t.Errorf("%s: without a head that was kept: got %v, want an error unless only the end is missing", name, err)
		}
		for _, s := range []string{"DELETE FROM rehop_triage_audit", "INSERT INTO rehop_triage_audit SELECT * FROM backup_audit", "DROP TABLE backup_audit"} {
			b.exec(s)
		}
		if _, err := b.Store.VerifyAudit(b.ctx, head); err != nil {
			t.Fatalf("after %s was undone: %v", strings.ToUpper(name), err)
		}
	}
	for range 3 {
		_, err := b.Store.Audit(b.ctx, triage.Entry{Actor: "ann", Action: "more"})
		b.must(err)
	}
	if _, err := b.Store.VerifyAudit(b.ctx, head); err != nil {
		t.Errorf("with an older head: got %v, want nil", err)
	}
	other := head
	other.Hash = strings.Repeat("0", 64)
	if _, err := b.Store.VerifyAudit(b.ctx, other); !errors.Is(err, triage.ErrAuditBroken) {
		t.Errorf("a chain that was written anew: got %v, want ErrAuditBroken", err)
	}
}
