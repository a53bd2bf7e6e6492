package rehoptest_test

import (
	"os"
	"strings"
	"testing"
)

// The page about testing shows a whole file, and it is the one that is tested here.
func TestPageShowsTheTest(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/testing-your-code.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("invoice_test.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```go\n"+string(code)+"```\n") {
		t.Error("docs/testing-your-code.md does not show rehoptest/invoice_test.go as it is")
	}
}
