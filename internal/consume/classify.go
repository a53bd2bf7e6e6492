package consume

import (
	"fmt"
	"runtime/debug"
	"slices"
)

// classify calls Classify for the error that the handler has returned, and for a batch for each message
// that has one. It returns what decides. That is part of the handler's run: its time limit, a stop and
// the replacement of stuck handlers apply.
func (w *worker) classify(h *Handling, answers []error, err error) ([]error, error) {
	if w.sub.settings.Classify == nil || err == nil && h.batch == nil {
		return answers, err
	}
	if err != nil {
		answers = slices.Repeat([]error{err}, h.messages())
	}
	w.classified = answers
	w.classifyFrom(h, 0)
	w.classified = nil
	return h.outcome(answers)
}

// outcome is what a handler has returned by the answers for its messages. See call.
func (h *Handling) outcome(answers []error) ([]error, error) {
	if h.batch != nil {
		return answers, nil
	}
	return nil, answers[0]
}

// classifyFrom classifies the errors from that of message i on. A Classify that calls runtime.Goexit, for
// which that is a failure, does not keep the others of a batch from being classified.
func (w *worker) classifyFrom(h *Handling, i int) {
	defer func() {
		if i < len(w.classified) {
			w.classified[i] = goexit("Classify")
			w.classifyFrom(h, i+1)
		}
	}()
	for ; i < len(w.classified); i++ {
		if err := w.classified[i]; err != nil {
			w.classified[i] = w.classifyOne(h, h.view(i), err)
		}
	}
}

// view is what the handler sees of message i.
func (h *Handling) view(i int) any {
	if h.batch == nil {
		return h.View
	}
	return h.batch.members[i].View
}

// classifyOne calls Classify. A panic is a failure like one of the handler.
//
// Classify is not called where its result has no effect: a message whose handler was canceled by a
// stop goes back to its queue, and one whose handler was replaced has been concluded.
func (w *worker) classifyOne(h *Handling, view any, err error) (decides error) {
	if h.decided() {
		return err
	}
	defer func() {
		if r := recover(); r != nil {
			decides = &PanicError{Text: fmt.Sprintf("panic in Classify: %v; it was called with: %v", r, err), Stack: string(debug.Stack())}
		}
	}()
	decides = w.sub.settings.Classify(view, err)
	readable(decides)
	return decides
}

func goexit(who string) error {
	return &PanicError{Text: who + " called runtime.Goexit", Stack: string(debug.Stack())}
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
	var answers []error
	err := goexit("the handler")
	defer func() { // also runs if Classify calls runtime.Goexit now
		if w.classified != nil {
			answers, err = h.outcome(w.classified)
		}
		s.reportEnd(h, answers, err)
		w.setIdle()
		h.end()
		if h.finish() {
			if h.batch != nil {
				h.batch.answers = answers
			}
			s.startWorker(w.base, h, err)
		} else {
			s.abandonedReturned(h)
		}
	}()
	if w.classified == nil { // else Classify has called it
		answers, err = w.classify(h, nil, err)
	}
}
