package kit

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// Main runs a package's tests, n of them at once.
func Main(m *testing.M, parallel int) {
	AtOnce(parallel)
	os.Exit(m.Run())
}

// AtOnce runs n tests at once unless the command line has another number: they wait for the broker much more than they compute, so there
// may be more of them than CPUs.
func AtOnce(parallel int) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", strconv.Itoa(parallel)); err != nil {
			panic(err)
		}
	}
}
