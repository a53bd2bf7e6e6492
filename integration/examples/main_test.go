// Package examples has complete programs, one per feature, which run on a real broker. They connect
// to the URL in REHOP_URL.
package examples

import (
	"testing"

	"github.com/rehop/rehop/integration/lab"
)

func TestMain(m *testing.M) { lab.Main(m) }
