package layouts

import "github.com/rehop/rehop/layout"

// formed is a layout that applications have in several forms: later versions of their programs
// declare some of the objects in another way, and the broker refuses one form where the other exists.
type formed interface {
	// forms are the layout in each form that a queue may have, the newest first.
	forms(QueueSpec) []layout.Layout
}

// Forms are the layout in each of its forms, the newest first. The first one that a broker does not
// refuse is right, and on an empty broker that is the newest. Most layouts have only one form.
//
// Forms differ in what is declared. What happens to a message is the same in all of them.
func Forms(l Layout, q QueueSpec) []layout.Layout {
	if f, ok := l.(formed); ok {
		return f.forms(q)
	}
	return []layout.Layout{l.Settings()}
}
