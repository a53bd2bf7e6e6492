// Package seeds chooses the numbers that decide what happens by chance in a test.
package seeds

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Variable is the environment variable with the seed of a run that is to be repeated.
const Variable = "REHOP_FAULTS_SEED"

// Of is the number in Variable, or a new one. It is logged.
func Of(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64() >> 32
	if given := os.Getenv(Variable); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("%s: %v", Variable, err)
		}
	}
	t.Logf("seed %d; %s=%d repeats it", seed, Variable, seed)
	return seed
}
