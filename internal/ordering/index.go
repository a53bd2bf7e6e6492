package ordering

import "slices"

// index finds messages by their id. Those without one are not in it.
type index map[string][]*Message

func (x index) add(m *Message) {
	if m.ID != "" {
		x[m.ID] = append(x[m.ID], m)
	}
}

func (x index) remove(m *Message) {
	left := slices.DeleteFunc(x[m.ID], func(other *Message) bool { return other == m })
	if len(left) == 0 {
		delete(x, m.ID)
		return
	}
	x[m.ID] = left
}

// has reports whether one of the messages is a copy of a message of the main queue. The key is not compared: another
// version of the program may find another one.
func (x index) has(m *Message) bool { return slices.ContainsFunc(x[m.ID], m.same) }
