//go:build !race

package triaging

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

// A message leaves the failed queue and another one arrives, without reports, so that the numbers are equal. The index notices.
func TestSQLiteEqualNumbers(t *testing.T) {
	t.Parallel()
	var swapping sync.RWMutex // no check begins between the two
	c := newScene(t, setting{rabbit: lab.Embedded(t), database: openSQLite(t), dialect: dialect.SQLite, silent: true, change: func(s *triage.ServiceConfig) {
		only := s.Admin
		s.Admin, s.SweepEvery = nil, time.Second
		s.Connect = func(context.Context) (*admin.Admin, error) {
			swapping.RLock()
			defer swapping.RUnlock()
			return only, nil
		}
	}})
	c.fail(0, 5)
	c.indexed("state:failed", 5)
	swapping.Lock()
	var line []byte
	c.eventually("a message is read", func() bool { // a sweep may read the queue
		found, err := c.admin.Failed(c.ctx, queue, 1, admin.Filter{IDs: []string{"1"}})
		if err != nil || len(found) != 1 {
			return false
		}
		line = bytes.Replace(exportOf(c, found[0]), []byte(`"id":"1"`), []byte(`"id":"new"`), 1)
		return true
	})
	c.eventually("a message is discarded", func() bool {
		done, err := c.admin.Discard(c.ctx, queue, admin.Options{Limit: 1, Filter: admin.Filter{IDs: []string{"0"}}})
		return err == nil && done.Done == 1
	})
	_, err := c.admin.Import(c.ctx, bytes.NewReader(append(line, '\n')))
	swapping.Unlock()
	c.must(err)
	c.indexed("id:new state:failed", 1)
	c.indexed("id:0 state:gone", 1)
	c.check()
}
