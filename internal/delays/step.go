package delays

import (
	"time"

	"github.com/rehop/rehop/layout"
)

// Step is a queue in which all messages wait for the same time.
type Step struct {
	Queue   string
	Address layout.Address
}

// StepOf is the step for a delay. keepsKey: it is for messages that keep their routing key.
func StepOf(delay time.Duration, keepsKey bool) Step {
	if keepsKey {
		return Step{layout.HomeStepQueue(delay), layout.HomeStepAddress(delay)}
	}
	return Step{layout.StepQueue(delay), layout.StepAddress(delay)}
}
