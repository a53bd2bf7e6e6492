package console

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rehop/rehop/triage"
)

// The ends of lines in a body are exported as they are. encoding/csv reads them differently, so the text of the file is compared.
func TestCSVKeepsLines(t *testing.T) {
	for _, body := range []string{"MSH|A\rPID|1\rOBX|2", "a\nb", "a\r\nb", "a\r\n\r\rb"} {
		var out bytes.Buffer
		f, err := newCSV(&out, false)
		if err == nil {
			err = f.write(triage.Message{ID: "1", Body: []byte(body)})
		}
		if err == nil {
			err = f.end()
		}
		if err != nil || !strings.HasSuffix(out.String(), `,"`+body+"\"\n") {
			t.Errorf("body %q: got %q, %v; want it at the end, unchanged", body, out.String(), err)
		}
	}
}
