package publishing

import (
	"flag"
	"os"
	"testing"
)

// These tests wait for the broker most of the time, so more of them run at once than there are CPUs,
// unless the command line says otherwise.
func TestMain(m *testing.M) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
