package node

import (
	"testing"
	"testing/synctest"
)

func newTasks() *tasks {
	t := &tasks{}
	t.idle.L = &t.mu
	return t
}

func TestTasksEndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := newTasks()
		for range 2 {
			if !all.Enter() {
				t.Fatal("a task cannot begin")
			}
		}
		ended := make(chan struct{})
		go func() {
			all.end()
			close(ended)
		}()
		synctest.Wait()
		if all.Enter() || !all.Ended() {
			t.Error("a task can begin after the end")
		}
		all.Leave()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("the end has not waited for the second task")
		default:
		}
		all.Leave()
		<-ended
		all.end() // at once
	})
}
