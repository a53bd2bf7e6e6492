package rabbit

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		longer, end := Grace(ctx, time.Second)
		defer end()
		<-longer.Done()
		if got, want := time.Since(began), time.Minute+time.Second; got != want {
			t.Errorf("ended after %v, want %v", got, want)
		}
	})
}
