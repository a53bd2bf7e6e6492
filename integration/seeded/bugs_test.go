package seeded

import "github.com/rehop/rehop/integration/kit"

// bug is a defect that a test must find.
type bug struct {
	name   string
	edits  []kit.Edit
	module string // that has the test; empty: this one
	folder string
	test   string
	shows  string // a part of what the test then prints
}

// unbalanced is what an auditor prints.
const unbalanced = "the books do not balance"

const (
	store     = "broker/internal/store"
	committer = store + "/commit.go"
	publisher = "internal/rabbit/publisher.go"
)

var bugs = []bug{
	{name: "ack-before-handle", folder: "faults", test: "^TestFaults$/^Single$/^Process$", shows: unbalanced, edits: []kit.Edit{{
		File:   "internal/consume/worker.go",
		Before: "\tanswers, err := call(ctx, s.settings.Handler, h)\n",
		After:  "\tif h.batch == nil {\n\t\th.raw.Ack()\n\t}\n\tanswers, err := call(ctx, s.settings.Handler, h)\n",
	}}},
	{name: "auto-ack", folder: "faults", test: "^TestFaults$/^Single$/^Process$", shows: unbalanced, edits: []kit.Edit{
		{File: "internal/rabbit/consumer.go", Before: "ch.Consume(o.Queue, tag, false, o.Exclusive,", After: "ch.Consume(o.Queue, tag, true, o.Exclusive,"},
		{File: "internal/rabbit/ledger.go", Before: "\tswitch s.verdict {\n\tcase requeued:\n", After: "\tif s.verdict == acked {\n\t\treturn nil\n\t}\n\tswitch s.verdict {\n\tcase requeued:\n"},
	}},
	{name: "confirm-before-fsync", module: ".", folder: store, test: "^TestCrash$", shows: "crash after a group is written, power cut", edits: []kit.Edit{{
		File: committer, Before: "\ts.options.Crash(pointAfterWrite)\n", After: "\ts.synced(g.mark)\n\ts.options.Crash(pointAfterWrite)\n",
	}}},
	{name: "confirm-before-write", folder: "crashes", test: "^TestCrashes$/^(Kill|Points)$", shows: "lost=[1-9]", edits: []kit.Edit{{
		File: committer, Before: "\ts.options.Crash(pointBeforeWrite)\n", After: "\ts.options.Synced(g.mark)\n\ts.options.Crash(pointBeforeWrite)\n",
	}}},
	{name: "no-checksum-on-recovery", module: ".", folder: store, test: "^TestBitFlips$", shows: "--- FAIL: TestBitFlips", edits: []kit.Edit{
		{File: store + "/scan.go", Before: "if !s.hasher.valid(s.header, s.operations, place{s.salt, s.offset}) {", After: "if s.header.operations == 0 {"},
		{File: store + "/scan.go", Before: "if sum != op.message.crc {", After: "if sum != op.message.crc && s.problem != \"\" {"},
	}},
	{name: "truncated-in-the-middle", module: ".", folder: store, test: "^TestBitFlips$", shows: "--- FAIL: TestBitFlips", edits: []kit.Edit{{
		File: store + "/reader.go", Before: "return !g.sealed && r.headerless == 0 && r.extent.mayEnd(g.header.Number, offset)", After: "return true",
	}}},
	{name: "inbox-forgets", folder: "boxfaults", test: "^TestBoxFaultsSQLite$", shows: "effects-twice=[1-9]", edits: []kit.Edit{{
		File: "inbox/handler.go", Before: "args := []any{consumer, []byte(id)}", After: "args := []any{consumer, []byte(id + time.Now().String())}",
	}}},
	{name: "effect-outside-the-transaction", folder: "boxfaults", test: "^TestBoxFaults$/^PostgreSQL$", shows: "effects-twice=[1-9]|has no effect", edits: []kit.Edit{{
		File: "integration/boxfaults/consumer_test.go", Before: "if _, err := tx.ExecContext(ctx, c.Dialect.Bind(\"INSERT INTO effect", After: "if _, err := db.ExecContext(ctx, c.Dialect.Bind(\"INSERT INTO effect",
	}}},
	{name: "negative-confirm-taken-for-a-confirm", folder: "publishing", test: "^TestRefusedByFullQueue$", shows: "full queue: got <nil>", edits: []kit.Edit{{
		File: publisher, Before: "\treturn fmt.Errorf(\"%w: %w\", ErrRefused, ErrNacked)\n}\n\n// abandon", After: "\treturn nil\n}\n\n// abandon",
	}}},
	{name: "not-mandatory", folder: "faults", test: "^TestFaults$/^Single$/^Delete$", shows: unbalanced, edits: []kit.Edit{{
		File: publisher, Before: "PublishWithDeferredConfirm(exchange, key, !isDirectReply(exchange, key), false, sent)", After: "PublishWithDeferredConfirm(exchange, key, false, false, sent)",
	}}},
	{name: "dead-letters-at-most-once", folder: "faults", test: "^TestFaults$/^Single$/^Kill$", shows: unbalanced, edits: []kit.Edit{{
		File:   "internal/layouts/native.go",
		Before: "\t\t// between two queues.\n\t\targs[\"x-dead-letter-strategy\"] = \"at-least-once\"\n",
		After:  "\t\targs[\"x-dead-letter-strategy\"] = \"at-most-once\"\n",
	}}},
	{name: "retry-published-after-the-ack", folder: "faults", test: "^TestFaults$/^Single$/^Process$", shows: unbalanced, edits: []kit.Edit{{
		File:   "internal/consume/move.go",
		Before: "\tmoved, err := s.moveUntil(ctx, h, failure, where)\n",
		After:  "\th.raw.Ack()\n\tmoved, err := s.moveUntil(ctx, h, failure, where)\n",
	}}},
}
