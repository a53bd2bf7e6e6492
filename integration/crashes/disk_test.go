package crashes

import "testing"

func fillDisk(t *testing.T, seed uint64) tally  { return tally{} }
func failSync(t *testing.T, seed uint64) tally  { return tally{} }
func failWrite(t *testing.T, seed uint64) tally { return tally{} }
