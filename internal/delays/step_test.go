package delays

import (
	"reflect"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/layouts"
)

func TestStepOf(t *testing.T) {
	t.Parallel()
	for keepsKey, want := range map[bool]Step{
		false: {"rehop.step.10s", layouts.StepAddress(10 * time.Second)},
		true:  {"rehop.step.home.10s", layouts.HomeStepAddress(10 * time.Second)},
	} {
		if got := StepOf(10*time.Second, keepsKey); !reflect.DeepEqual(got, want) {
			t.Errorf("keeps key %v: got %+v, want %+v", keepsKey, got, want)
		}
	}
}
