// Package publishing tests what becomes of published messages, on a real RabbitMQ.
package publishing

import (
	"testing"

	"github.com/rehop/rehop/integration/kit"
)

func TestMain(m *testing.M) { kit.Main(m, 8) }
