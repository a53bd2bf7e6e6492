package console

import (
	"context"
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
	v.Examined, v.Took = true, time.Since(began).Round(time.Millisecond)
	return x.show("doctor", "Doctor", v)
}
