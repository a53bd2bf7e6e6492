//go:build !race

package triaging

import (
	"fmt"
	"os"
	"testing"

	"github.com/rehop/rehop/integration/kit"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashFile); path != "" {
		if err := crashProcess(path); err != nil {
			fmt.Fprintln(os.Stderr, "process:", err)
		}
		os.Exit(1)
	}
	kit.Main(m, 8)
}
