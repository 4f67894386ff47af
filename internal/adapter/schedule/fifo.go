package schedule

import "slices"

// A FIFO is a queue that uses its memory again. The zero value is empty.
type FIFO[T any] struct {
	list []T
	head int
}

// Len returns the number of entries.
func (f *FIFO[T]) Len() int { return len(f.list) - f.head }

// Waiting returns the entries, the oldest first.
func (f *FIFO[T]) Waiting() []T { return f.list[f.head:] }

// Push appends an entry.
func (f *FIFO[T]) Push(x T) {
	if f.head > 0 && len(f.list) == cap(f.list) {
		n := copy(f.list, f.list[f.head:])
		clear(f.list[n:])
		f.list, f.head = f.list[:n], 0
	}
	f.list = append(f.list, x)
}

// Pop takes the oldest entry off; there must be one.
func (f *FIFO[T]) Pop() T {
	var none T
	x := f.list[f.head]
	f.list[f.head] = none
	if f.head++; f.head == len(f.list) {
		f.list, f.head = f.list[:0], 0
	}
	return x
}

// Remove takes entry i of Waiting out.
func (f *FIFO[T]) Remove(i int) { f.list = slices.Delete(f.list, f.head+i, f.head+i+1) }
