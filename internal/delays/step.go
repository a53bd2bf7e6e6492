package delays

import (
	"time"

	"github.com/rehop/rehop/internal/layouts"
)

// Step is a queue in which all messages wait for the same time.
type Step struct {
	Queue   string
	Address layouts.Address
}

// StepOf is the step for a delay. keepsKey: it is for messages that keep their routing key.
func StepOf(delay time.Duration, keepsKey bool) Step {
	if keepsKey {
		return Step{layouts.HomeStepQueue(delay), layouts.HomeStepAddress(delay)}
	}
	return Step{layouts.StepQueue(delay), layouts.StepAddress(delay)}
}
