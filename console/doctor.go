package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rehop/rehop/admin"
)

// doctorView is what was found, if the user has asked for it: an examination takes some seconds and reads from delay queues.
type doctorView struct {
	Examined bool
	Findings admin.Findings
	Checks   int
	Took     time.Duration
}

// examination is the last result of the doctor.
type examination struct {
	At   time.Time
	Text string // how many findings
	Bad  bool   // one is critical
}

func newExamination(found admin.Findings) *examination {
	critical, warnings := len(found.Above(admin.Warning)), len(found.Above(admin.Info))
	e := &examination{At: time.Now(), Text: "nothing that needs attention", Bad: critical > 0}
	if warnings > 0 {
		e.Text = fmt.Sprintf("%s, %s of them critical", counted(warnings, "problem"), number(critical))
	}
	if slices.ContainsFunc(found, func(f admin.Finding) bool { return f.ID == "doctor.blind" }) {
		e.Text += "; some things could not be examined"
	}
	return e
}

func (x *call) doctor() error {
	v := doctorView{Checks: len(admin.Checks())}
	if x.r.URL.Query().Get("examine") == "" {
		return x.show("doctor", "Doctor", v)
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), 2*x.console.options.Timeout)
	defer cancel()
	a, end, err := x.console.connect(ctx)
	if err != nil {
		return err
	}
	defer end()
	began := time.Now()
	if v.Findings, err = a.Doctor(ctx, x.console.options.Doctor); err != nil {
		return err
	}
	x.console.examined.Store(newExamination(v.Findings))
	v.Examined, v.Took = true, time.Since(began).Round(time.Millisecond)
	return x.show("doctor", "Doctor", v)
}
