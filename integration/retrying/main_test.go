// Package retrying tests on a real RabbitMQ how failed messages wait, return and rest.
package retrying

import (
	"os"
	"testing"

	"github.com/rehop/rehop/integration/kit"
)

func TestMain(m *testing.M) {
	if os.Getenv(childURL) != "" {
		child()
		return
	}
	kit.Main(m, 16)
}
