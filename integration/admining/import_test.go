package admining

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// importer is an admin of a virtual host that has the queues mail and other.
func importer(t *testing.T, r *lab.Rabbit) *admin.Admin {
	t.Helper()
	ctx := kit.Context(t)
	a, err := admin.Open(ctx, admin.Config{URL: r.URL, Management: r.Management()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	plan, err := rehop.Topology(rehop.Config{}, rehop.Subscriber{Queue: "mail"}, rehop.Subscriber{Queue: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Apply(ctx, plan, admin.ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	return a
}

// line is one of an import, with fields in addition to those that all have.
func line(id, queue, members string) string {
	return fmt.Sprintf(`{"id":%q,"queue":%q,"exchange":"","key":"mail","body":"aGk="%s}`+"\n", id, queue, members)
}

// A header by which a publisher has copies sent leads no copies anywhere.
func TestImportSendsNoCopies(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		a := importer(t, r)
		text := line("m1", "mail", `,"headers":{"BCC":["other","other.failed"]}`) + line("m2", "mail", `,"headers":{"CC":["other"],"BCC":["other"]}`)
		if n, err := a.Import(kit.Context(t), strings.NewReader(text)); n != 2 || err != nil {
			t.Fatalf("imported %d, %v, want 2", n, err)
		}
		ch := r.Channel()
		kit.WantDepth(t, r, ch, "mail.failed", 2)
		kit.WantDepth(t, r, ch, "other", 0)
		kit.WantDepth(t, r, ch, "other.failed", 0)
	})
}

// What an import does not take, a check before it does not either.
func TestCheckImportFindsWhatImportRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		a := importer(t, r)
		for what, bad := range map[string]string{
			"a long id":             line(long, "mail", ""),
			"a long queue":          line("m", long, ""),
			"a long correlation id": line("m", "mail", `,"correlation_id":"`+long+`"`),
			"a long content type":   line("m", "mail", `,"content_type":"`+long+`"`),
			"a direct reply":        line("m", "mail", `,"reply_to":"amq.rabbitmq.reply-to"`),
			"a long header name":    line("m", "mail", `,"headers":{"`+long+`":1}`),
			"large headers":         line("m", "mail", `,"headers":{"h":"`+strings.Repeat("x", 200_000)+`"}`),
			"a header of no type":   line("m", "mail", `,"headers":{"h":1.5}`),
			"a deep header":         line("m", "mail", `,"headers":{"h":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)+`}`),
			"a priority too high":   line("m", "mail", `,"priority":256`),
		} {
			text := line("m0", "mail", "") + bad
			if n, err := admin.CheckImport(strings.NewReader(text), admin.Config{}); n != 1 || err == nil || !strings.Contains(err.Error(), "line 2") {
				t.Errorf("%s: a check counts %d, %v, want 1 and that line 2 is wrong", what, n, err)
			}
			n, err := a.Import(kit.Context(t), strings.NewReader(text))
			var end *admin.ImportError
			if n != 1 || !errors.As(err, &end) || !slices.Equal(end.Lines, []int{2}) || end.Tried != 2 {
				t.Errorf("%s: imported %d, %v (%+v), want 1, and that line 2 of 2 is refused", what, n, err, end)
			}
		}
	})
}

// Some editors begin a file with a mark.
func TestImportWithByteOrderMark(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		a := importer(t, r)
		text := "\ufeff" + line("m0", "mail", "") + line("m1", "mail", "")
		if n, err := admin.CheckImport(strings.NewReader(text), admin.Config{}); n != 2 || err != nil {
			t.Errorf("a check counts %d, %v, want 2", n, err)
		}
		if n, err := a.Import(kit.Context(t), strings.NewReader(text)); n != 2 || err != nil {
			t.Errorf("imported %d, %v, want 2", n, err)
		}
	})
}

// An import that ends at lines that the broker refuses names them, and reports how far it was: continued there, it imports each of the others once.
func TestImportGoesOnBehindRefusedLines(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		a := importer(t, r)
		var lines []string
		for i := range 150 {
			queue := "mail"
			switch i {
			case 3, 70, 71: // which are in two batches
				queue = "gone"
			}
			lines = append(lines, line(fmt.Sprint("m", i), queue, ""))
		}
		lines[100] = "{oops\n"
		from, refused := 0, []int{}
		for from < len(lines) {
			// As on the command line, where lines that are skipped keep their numbers.
			text := strings.Repeat("\n", from) + strings.Join(lines[from:], "")
			_, err := a.Import(kit.Context(t), strings.NewReader(text))
			if err == nil {
				break
			}
			var end *admin.ImportError
			if !errors.As(err, &end) || end.Tried == 0 {
				t.Fatalf("got %v, want an error that says where to go on", err)
			}
			refused = append(refused, end.Lines...)
			from += end.Tried
		}
		if want := []int{4, 71, 72, 101}; !slices.Equal(refused, want) {
			t.Errorf("refused were lines %d, want %d", refused, want)
		}
		kit.WantDepth(t, r, r.Channel(), "mail.failed", 146)
	})
}
