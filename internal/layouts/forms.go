package layouts

import "github.com/rehop/rehop/layout"

// formed is a layout that applications have in several forms: later versions of their programs
// declare some of the objects in another way, and the broker refuses one form where the other exists.
type formed interface {
	// forms are the layout in each form that a queue may have, the newest first.
	forms(QueueSpec) []layout.Layout
}

// Forms are the layout in each of its forms, the newest first. What a broker has decides between
// them: the first one that it does not refuse is right, and on an empty broker that is the newest. A
// layout that has one form, or settings that choose one, is the only one.
//
// Forms differ in what is declared. What becomes of a message is the same in all of them.
func Forms(l Layout, q QueueSpec) []layout.Layout {
	if f, ok := l.(formed); ok {
		return f.forms(q)
	}
	return []layout.Layout{l.Settings()}
}
