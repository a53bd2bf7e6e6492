package broker_test

import (
	"flag"
	"io"
	"log/slog"
	"os"
	"testing"
)

// TestMain runs many tests at once, even on few processors: most of them wait most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" || f.Name == "test.fuzz" })
	if !asked {
		if err := flag.Set("test.parallel", "128"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
