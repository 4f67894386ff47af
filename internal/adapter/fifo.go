package adapter

import "slices"

// A fifo is a queue in memory that it takes again.
type fifo[T any] struct {
	list []T
	head int
}

func (f *fifo[T]) len() int { return len(f.list) - f.head }

// waiting are the entries, the oldest first.
func (f *fifo[T]) waiting() []T { return f.list[f.head:] }

func (f *fifo[T]) push(x T) {
	if f.head > 0 && len(f.list) == cap(f.list) {
		n := copy(f.list, f.list[f.head:])
		clear(f.list[n:])
		f.list, f.head = f.list[:n], 0
	}
	f.list = append(f.list, x)
}

// pop takes the oldest entry off; there is one.
func (f *fifo[T]) pop() T {
	var none T
	x := f.list[f.head]
	f.list[f.head] = none
	if f.head++; f.head == len(f.list) {
		f.list, f.head = f.list[:0], 0
	}
	return x
}

// remove takes the i-th of waiting out.
func (f *fifo[T]) remove(i int) { f.list = slices.Delete(f.list, f.head+i, f.head+i+1) }
