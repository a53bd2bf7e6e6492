package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const run = `a tool speaks
{"Action":"run","Package":"x/one","Test":"TestOK"}
{"Action":"output","Package":"x/one","Test":"TestOK","Output":"=== RUN   TestOK\n"}
{"Action":"output","Package":"x/one","Test":"TestOK","Output":"quiet\n"}
{"Action":"pass","Package":"x/one","Test":"TestOK"}
{"Action":"output","Package":"x/one","Test":"TestLater","Output":"    a_test.go:3: no disk\n"}
{"Action":"skip","Package":"x/one","Test":"TestLater"}
{"Action":"pass","Package":"x/one","Elapsed":1.5}
{"Action":"output","Package":"x/two","Test":"TestBad","Output":"    b_test.go:4: got 1, want 2\n"}
{"Action":"fail","Package":"x/two","Test":"TestBad"}
{"Action":"output","Package":"x/two","Test":"TestHung","Output":"panic: test timed out\n"}
{"Action":"output","Package":"x/two","Output":"FAIL x/two\n"}
{"Action":"fail","Package":"x/two","Elapsed":2}
{"Action":"skip","Package":"x/empty"}
`

func TestReport(t *testing.T) {
	var out strings.Builder
	r := newTally(&out)
	if err := r.readAll(strings.NewReader(run)); err != nil {
		t.Fatal(err)
	}
	if r.summarize() {
		t.Error("got well, want not")
	}
	const want = `a tool speaks
pass  x/one 1.5s
    b_test.go:4: got 1, want 2
panic: test timed out
FAIL x/two
fail  x/two 2.0s
skip  x/empty 0.0s
skipped:
  TestLater: a_test.go:3: no disk
failed:
  TestBad: b_test.go:4: got 1, want 2
  TestHung: did not end
1 passed, 2 failed, 1 skipped
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTable(t *testing.T) {
	r := newTally(new(strings.Builder))
	if err := r.readAll(strings.NewReader(run)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "table")
	for _, title := range []string{"rabbitmq=4.3.6", "rabbitmq=4.0.5"} {
		if err := r.appendTo(file, title); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const want = `rabbitmq=4.3.6 suite=one passed=1 failed=0 skipped=1
rabbitmq=4.3.6 suite=two passed=0 failed=2 skipped=0
rabbitmq=4.0.5 suite=one passed=1 failed=0 skipped=1
rabbitmq=4.0.5 suite=two passed=0 failed=2 skipped=0
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNothingIsNotWell(t *testing.T) {
	if newTally(new(strings.Builder)).summarize() {
		t.Error("a run without any test: got well, want not")
	}
}
