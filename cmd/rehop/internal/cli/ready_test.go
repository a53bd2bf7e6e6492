package cli

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/rehop/rehop/cmd/rehop/internal/serve"
)

// A terminal shows the report, with a new password. Without one the report is part of a log in JSON, or text if the log is, and the password
// is only in its file.
func TestReady(t *testing.T) {
	t.Parallel()
	const password = "NEWPASSWORD"
	for name, c := range map[string]struct {
		width               int
		asJSON, inFile      bool
		printed, logged     bool
		password, logIsJSON bool
	}{
		"terminal":                      {width: 80, inFile: true, printed: true, password: true},
		"terminal, JSON log":            {width: 80, inFile: true, logIsJSON: true, printed: true, password: true},
		"no terminal":                   {inFile: true, printed: true},
		"no terminal, JSON log":         {inFile: true, logIsJSON: true, logged: true},
		"no terminal, --json":           {inFile: true, asJSON: true, logIsJSON: true, printed: true},
		"no terminal, password nowhere": {logIsJSON: true, logged: true, password: true},
	} {
		t.Run(name, func(t *testing.T) {
			var out, log bytes.Buffer
			cmd := &command{Surroundings: Surroundings{Out: &out, Width: c.width}, json: c.asJSON}
			login := &serve.Login{User: "admin", Password: password}
			if c.inFile {
				login.PasswordFile = "data/admin-password"
			}
			how := readiness{}
			if c.logIsJSON {
				how.log = slog.New(slog.NewJSONHandler(&log, nil))
			}
			report := serve.Report{AMQP: "amqp://admin@0.0.0.0:5672/", Login: login, Flows: []serve.FlowReport{{Name: "mail", Queue: "mail"}}}
			if err := cmd.reportReady(report, how); err != nil {
				t.Fatal(err)
			}
			if (out.Len() > 0) != c.printed || (log.Len() > 0) != c.logged {
				t.Errorf("printed %q and logged %q, want printed %v, logged %v", &out, &log, c.printed, c.logged)
			}
			if got := strings.Contains(out.String()+log.String(), password); got != c.password {
				t.Errorf("printed %q and logged %q, want the password there: %v", &out, &log, c.password)
			}
			if c.logged && !json.Valid(log.Bytes()) {
				t.Errorf("got %q, want one line of JSON", &log)
			}
			if login.Password != password {
				t.Error("the report itself has changed")
			}
		})
	}
}
