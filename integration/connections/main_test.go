// Package connections tests how a client keeps its connections and consumers, on a real RabbitMQ.
package connections

import (
	"testing"

	"github.com/rehop/rehop/integration/kit"
)

func TestMain(m *testing.M) { kit.Main(m, 8) }
