package ordering

import "slices"

// fifo is a list of which the first element is taken again and again. It uses its memory again, which a slice that is cut at its beginning does not.
type fifo[T any] struct {
	all   []T
	taken int // of all
}

func (f *fifo[T]) len() int { return len(f.all) - f.taken }

func (f *fifo[T]) first() T { return f.all[f.taken] }

func (f *fifo[T]) add(one T) {
	if len(f.all) == cap(f.all) && f.taken > len(f.all)/2 {
		f.set(f.all[f.taken:])
	}
	f.all = append(f.all, one)
}

// take takes out the first element.
func (f *fifo[T]) take() T {
	var none T
	one := f.all[f.taken]
	f.all[f.taken] = none
	if f.taken++; f.taken == len(f.all) {
		f.all, f.taken = f.all[:0], 0
	}
	return one
}

// set has the list consist of these elements, which may be part of it.
func (f *fifo[T]) set(some []T) {
	n := copy(f.all[:cap(f.all)], some)
	if n < len(some) {
		f.all = slices.Clone(some)
	} else {
		clear(f.all[min(n, len(f.all)):])
		f.all = f.all[:n]
	}
	f.taken = 0
}

// remove takes out all elements that match.
func (f *fifo[T]) remove(match func(T) bool) { f.set(slices.DeleteFunc(f.all[f.taken:], match)) }

// putFirst inserts elements at the beginning.
func (f *fifo[T]) putFirst(some ...T) { f.set(append(some, f.all[f.taken:]...)) }
