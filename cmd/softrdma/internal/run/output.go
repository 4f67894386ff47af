package run

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// maxLine is the length at which an unfinished line of output is written.
const maxLine = 64 << 10

// outputs merges the output of all ranks, line by line, and their ends.
type outputs struct {
	out, err io.Writer
	label    bool
	send     func(rank int, stderr bool, b []byte) // instead, if not nil
	ended    func(rank int)                        // called when a rank has ended successfully

	mu  sync.Mutex
	all map[[2]int]*lines
}

// writer returns a writer for an output of a rank.
func (o *outputs) writer(rank int, stderr bool) *lines {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := [2]int{rank, 0}
	if stderr {
		key[1] = 1
	}
	if l := o.all[key]; l != nil {
		return l
	}
	if o.all == nil {
		o.all = map[[2]int]*lines{}
	}
	l := &lines{o: o, rank: rank, stderr: stderr}
	o.all[key] = l
	return l
}

// flush writes the rest of all ranks' output.
func (o *outputs) flush() {
	o.mu.Lock()
	var list []*lines
	for _, l := range o.all {
		list = append(list, l)
	}
	o.mu.Unlock()
	for _, l := range list {
		l.flush()
	}
}

// emit writes whole lines.
func (o *outputs) emit(rank int, stderr bool, b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.send != nil {
		o.send(rank, stderr, b)
		return nil
	}
	w := o.out
	if stderr {
		w = o.err
	}
	if o.label {
		var labeled []byte
		for line := range bytes.Lines(b) {
			labeled = append(fmt.Appendf(labeled, "[%d] ", rank), line...)
		}
		b = labeled
	}
	_, err := w.Write(b)
	return err
}

// lines is an output of a rank.
type lines struct {
	o      *outputs
	rank   int
	stderr bool
	mu     sync.Mutex
	rest   []byte // unfinished line
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, b...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	if end == 0 && len(l.rest) >= maxLine {
		end = len(l.rest)
	}
	if end == 0 {
		return len(b), nil
	}
	err := l.o.emit(l.rank, l.stderr, l.rest[:end])
	l.rest = append(l.rest[:0], l.rest[end:]...)
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

// flush writes an unfinished last line.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		_ = l.o.emit(l.rank, l.stderr, append(l.rest, '\n')) // the process ends
		l.rest = nil
	}
}
