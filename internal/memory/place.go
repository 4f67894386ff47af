package memory

import (
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// Place returns n bytes at addr for a socket to write to. It returns nil if they are not all
// inside the region, if they are only the mirror of another process's memory, if the memory is not
// pinned, or if the region is watched; then use Put.
func (r *Region) Place(addr uint64, n int) []byte {
	if !r.direct() {
		return nil
	}
	return r.Bytes(addr, n)
}

// direct reports whether a socket may write to the region.
func (r *Region) direct() bool { return !r.unpinned && r.foreign == nil && r.watched == nil }

// Places appends to dst the n bytes at message offset pos of the list for a socket to
// write to, and reports whether it can write there. If not, use Scatter.
func (c *Cursor) Places(t *Table, pd uint32, list []SGE, pos uint64, n int, dst [][]byte) (places [][]byte, direct bool, d reason.Detail) {
	for n > 0 {
		b, d := c.next(t, pd, list, pos, n, qp.LocalWrite)
		if d.Reason != reason.None {
			return dst, false, d
		}
		if !c.region.direct() {
			return dst, false, reason.Detail{}
		}
		dst = append(dst, b)
		pos += uint64(len(b))
		n -= len(b)
	}
	return dst, true, reason.Detail{}
}
