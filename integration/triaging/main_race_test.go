//go:build race

package triaging

import (
	"testing"

	"github.com/rehop/rehop/integration/kit"
)

func TestMain(m *testing.M) { kit.Main(m, 8) }
