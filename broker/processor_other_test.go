//go:build !unix

package broker_test

import (
	"testing"
	"time"
)

// processorTime is unknown here, so that nothing takes too long.
func processorTime(testing.TB) time.Duration { return 0 }
