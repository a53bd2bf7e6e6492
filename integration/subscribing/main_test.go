// Package subscribing tests on a real RabbitMQ how messages are received, handled and settled.
package subscribing

import (
	"testing"

	"github.com/rehop/rehop/integration/kit"
)

func TestMain(m *testing.M) { kit.Main(m, 16) }
