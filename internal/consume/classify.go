package consume

import (
	"fmt"
	"runtime/debug"
)

// classify calls Classify for the error that the handler has returned. That is part of the handler's
// run: its time limit, a stop and the replacement of stuck handlers apply. A panic is a failure like
// one of the handler.
//
// Classify is not called where its result has no effect: a message whose handler was canceled by a
// stop goes back to its queue, and one whose handler was replaced has been concluded.
func (w *worker) classify(h *Handling, err error) (decides error) {
	if h.decided() {
		return err
	}
	w.classifying = true // still, in exited, if Classify calls runtime.Goexit
	defer func() {
		if r := recover(); r != nil {
			w.classifying = false
			decides = &PanicError{Text: fmt.Sprintf("panic in Classify: %v; it was called with: %v", r, err), Stack: string(debug.Stack())}
		}
	}()
	decides = w.sub.settings.Classify(h.View, err)
	readable(decides)
	w.classifying = false
	return decides
}

// readable panics if a method of an error does, such as one of a nil pointer in the interface: here
// that counts as a failure, later it would end the process.
func readable(err error) {
	if err != nil {
		_ = err.Error()
		_ = AnswerOf(err)
	}
}

// exited sees to the message of a handler that has called runtime.Goexit, or for which Classify
// has. That ends the goroutine of the worker, so another worker concludes it.
func (w *worker) exited() {
	s, h := w.sub, w.current
	if h == nil { // not in a handler: a hook called it, or a panic is about to end the process
		return
	}
	goexit := func(who string) error {
		return &PanicError{Text: who + " called runtime.Goexit", Stack: string(debug.Stack())}
	}
	err := goexit("the handler")
	defer func() { // also runs if Classify calls runtime.Goexit now
		if w.classifying {
			err = goexit("Classify")
		}
		s.reportEnd(h, nil, err)
		w.setIdle()
		h.end()
		if h.finish() {
			s.startWorker(w.base, h, err)
		} else {
			s.abandonedReturned(h)
		}
	}()
	if s.settings.Classify != nil && !w.classifying {
		err = w.classify(h, err)
	}
}
