package node

import (
	"testing"
	"testing/synctest"
)

func newTasks() *tasks {
	t := &tasks{}
	t.init()
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
		called := 0
		all.AtEnd(func() { called++ })
		all.AtEnd(func() { called += 10 })()
		ended := make(chan struct{})
		go func() {
			all.end()
			close(ended)
		}()
		synctest.Wait()
		if called != 1 {
			t.Errorf("calls at the end: got %d, want the one that was not taken back", called)
		}
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

// TestTasksCallTasks: what is called at the end may wait for tasks that leave.
func TestTasksCallTasks(t *testing.T) {
	all := newTasks()
	all.Enter()
	left := make(chan struct{})
	all.AtEnd(func() {
		go func() {
			all.Leave()
			close(left)
		}()
		<-left
	})
	all.end()
}
