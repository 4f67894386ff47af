package sanitize

import (
	"cmp"
	"fmt"
	"slices"

	"softrdma/internal/memory"
)

// A loan is memory that the program has posted for the device to write to: it belongs to the device until
// the request completes. It is looked at once, before the device first writes to it. If its bytes are not those
// that were posted then, something else than the device has written to it.
type loan struct {
	rule  Rule
	owner *object // whose queue it was posted to
	what  string  // of whose buffer it is
	when  string  // before what it must not change
	where []uintptr
	parts [][]byte
	sums  sums
}

// A span is one part of a loan, by its address.
type span struct {
	from, to uint64
	of       *loan
}

// loans are found by address. Loans may overlap: programs post one buffer several times if they do not
// need what arrives.
type loans struct {
	spans   []span // by from
	longest uint64 // no span is longer
}

func (l *loans) search(from uint64) int {
	i, _ := slices.BinarySearchFunc(l.spans, from, func(x span, from uint64) int { return cmp.Compare(x.from, from) })
	return i
}

func (l *loans) add(x *loan) {
	for _, b := range x.parts {
		from, n := memory.Addr(b), uint64(len(b))
		l.longest = max(l.longest, n)
		l.spans = slices.Insert(l.spans, l.search(from), span{from, from + n, x})
	}
}

// remove ends a loan, and reports whether it had not ended before.
func (l *loans) remove(x *loan) (lent bool) {
	if x == nil {
		return false
	}
	for _, b := range x.parts {
		from := memory.Addr(b)
		for i := l.search(from); i < len(l.spans) && l.spans[i].from == from; i++ {
			if l.spans[i].of == x {
				l.spans = slices.Delete(l.spans, i, i+1)
				lent = true
				break
			}
		}
	}
	return lent
}

// of returns a loan that has bytes of b, nil if there is none.
func (l *loans) of(b []byte) *loan {
	from := memory.Addr(b)
	to := from + uint64(len(b))
	for i := l.search(from - min(from, l.longest)); i < len(l.spans) && l.spans[i].from < to; i++ {
		if l.spans[i].to > from {
			return l.spans[i].of
		}
	}
	return nil
}

// lend notes that the program has posted memory for the device to write to. It returns nil if its change would
// not be found.
func (s *Sanitizer) lend(x loan, list []memory.SGE) *loan {
	if !s.cfg.Rules.Has(x.rule) {
		return nil
	}
	var ok bool
	if x.parts, ok = s.parts(list); !ok || len(x.parts) == 0 {
		return nil
	}
	if x.sums, ok = sumsOf(x.parts); !ok {
		return nil
	}
	s.lent.add(&x)
	return &x
}

// compare compares memory that the device is about to write to with what was posted, unless that was done before.
func (s *Sanitizer) compare(x *loan) {
	if !s.lent.remove(x) {
		return
	}
	if where := x.sums.changed(x.parts); where != "" {
		s.report(x.rule, x.owner, fmt.Sprintf("%s of the buffer of %s changed before %s", where, x.what, x.when), nil,
			note{"the request was posted", x.where})
	}
}

// Writing implements memory.Watcher. Nothing is posted while the device writes, as far as a Sanitizer can
// see: the memory is looked at before or after that.
func (s *Sanitizer) Writing(b []byte) {
	s.mu.Lock()
	for x := s.lent.of(b); x != nil; x = s.lent.of(b) {
		s.compare(x)
	}
}

// Wrote implements memory.Watcher.
func (s *Sanitizer) Wrote() { s.mu.Unlock() }

// parts returns the memory of a list, and reports whether all of it is registered.
func (s *Sanitizer) parts(list []memory.SGE) (parts [][]byte, ok bool) {
	for _, e := range list {
		if e.Length == 0 {
			continue // its key is not looked at
		}
		x := s.regions[e.LKey]
		if x == nil || x.ended {
			return nil, false
		}
		b := x.Bytes(e.Addr, int(e.Length))
		if b == nil {
			return nil, false
		}
		parts = append(parts, b)
	}
	return parts, true
}
