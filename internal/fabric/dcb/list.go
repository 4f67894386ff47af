package dcb

// A List is frames in their order. The zero value is empty.
type List struct {
	head, tail *Frame
	Frames     int
	Bytes      int
}

// First returns the first frame, nil if there is none.
func (l *List) First() *Frame { return l.head }

// Push adds a frame at the end.
func (l *List) Push(f *Frame) {
	f.next = nil
	if l.tail == nil {
		l.head = f
	} else {
		l.tail.next = f
	}
	l.tail = f
	l.Frames++
	l.Bytes += int(f.Len)
}

// Pop removes the first frame, which there is.
func (l *List) Pop() *Frame {
	f := l.head
	if l.head = f.next; l.head == nil {
		l.tail = nil
	}
	f.next = nil
	l.Frames--
	l.Bytes -= int(f.Len)
	return f
}

// Return puts a frame back to the front.
func (l *List) Return(f *Frame) {
	f.next = l.head
	if l.head = f; l.tail == nil {
		l.tail = f
	}
	l.Frames++
	l.Bytes += int(f.Len)
}

// All calls f with each frame.
func (l *List) All(f func(*Frame)) {
	for k := l.head; k != nil; k = k.next {
		f(k)
	}
}

// Join moves all frames of another list to the end.
func (l *List) Join(o *List) {
	if o.head == nil {
		return
	}
	if l.tail == nil {
		l.head = o.head
	} else {
		l.tail.next = o.head
	}
	l.tail = o.tail
	l.Frames += o.Frames
	l.Bytes += o.Bytes
	*o = List{}
}
