package memory

import (
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// Place gives n bytes at addr to be written to from outside, as by a socket; nil
// where they are not all inside the region, or where a slice is not the memory
// itself but a mirror of another process's: then Put is the way.
func (r *Region) Place(addr uint64, n int) []byte {
	if f := r.foreign; f != nil {
		if !f.shared(addr-r.Base, uint64(n)) {
			return nil
		}
		r.table.deferred.settle()
	}
	return r.Bytes(addr, n)
}

// Places appends to dst the n bytes at message offset pos of the list, to be
// written to from outside. It reports whether they can be; where not, Scatter is
// the way.
func (c *Cursor) Places(t *Table, pd uint32, list []SGE, pos uint64, n int, dst [][]byte) (places [][]byte, direct bool, d reason.Detail) {
	for n > 0 {
		b, d := c.next(t, pd, list, pos, n, qp.LocalWrite)
		if d.Reason != reason.None {
			return dst, false, d
		}
		if f := c.region.foreign; f != nil {
			if !f.shared(list[c.entry].Addr+pos-c.start-c.region.Base, uint64(len(b))) {
				return dst, false, reason.Detail{}
			}
			t.deferred.settle()
		}
		dst = append(dst, b)
		pos += uint64(len(b))
		n -= len(b)
	}
	return dst, true, reason.Detail{}
}
