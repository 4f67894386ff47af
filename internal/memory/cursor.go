package memory

import (
	"softrdma/internal/qp"
	"softrdma/internal/reason"
)

// A Cursor walks a scatter/gather list in step with the packets of a message, so that a
// packet costs no search. It belongs to one message at a time: Reset it for the next. The
// zero value is at the start.
type Cursor struct {
	entry  int    // entry that pos lies in
	start  uint64 // message offset of that entry's first byte
	region *Region
	key    uint32
	access qp.Access // access that region was checked for

	loaded, loadedEnd uint64 // message offsets that were read from another process
}

// Reset moves the cursor back to the start, for another list.
func (c *Cursor) Reset() { *c = Cursor{} }

// Restart moves the cursor back to the start, for another list that is used with the same
// protection domain and access. It keeps the current region, which saves a look-up if the
// lists are in the same region.
func (c *Cursor) Restart() { c.entry, c.start, c.loadedEnd = 0, 0, 0 }

// Gather appends to dst the n bytes at message offset pos of the list, as slices of registered
// memory, which are valid as long as the memory is.
func (c *Cursor) Gather(t *Table, pd uint32, list []SGE, pos uint64, n int, dst [][]byte) ([][]byte, reason.Detail) {
	for n > 0 {
		b, d := c.next(t, pd, list, pos, n, 0)
		if d.Reason != reason.None {
			return dst, d
		}
		if c.region.foreign != nil && !c.fetch(&list[c.entry], pos, len(b)) {
			return dst, unmapped(c.region.foreign.Addr+list[c.entry].Addr+pos-c.start-c.region.Base, len(b))
		}
		if !c.region.mapped(b) {
			return dst, unmapped(Addr(b), len(b))
		}
		dst = append(dst, b)
		pos += uint64(len(b))
		n -= len(b)
	}
	return dst, reason.Detail{}
}

// Whole returns the n bytes of a list of one entry as one slice, if they are in the cursor's
// current region and in this process's memory; otherwise nil, and the caller uses Gather. The
// cursor must be at the start.
func (c *Cursor) Whole(e *SGE, n int) []byte {
	r := c.region
	if r == nil || c.key != e.LKey || c.access != 0 || r.foreign != nil || r.unpinned || !r.Valid() {
		return nil
	}
	return r.Bytes(e.Addr, n)
}

// Scatter copies data to message offset pos of the list.
func (c *Cursor) Scatter(t *Table, pd uint32, list []SGE, pos uint64, data []byte) reason.Detail {
	for len(data) > 0 {
		b, d := c.next(t, pd, list, pos, len(data), qp.LocalWrite)
		if d.Reason != reason.None {
			return d
		}
		if c.region.foreign == nil {
			if !c.region.copyTo(b, data[:len(b)]) {
				return unmapped(Addr(b), len(b))
			}
		} else if d = c.region.store(list[c.entry].Addr+pos-c.start-c.region.Base, b, data[:len(b)]); d.Reason != reason.None {
			return d
		}
		pos += uint64(len(b))
		data = data[len(b):]
	}
	return reason.Detail{}
}

// next returns the bytes at pos up to the end of the entry, at most n.
func (c *Cursor) next(t *Table, pd uint32, list []SGE, pos uint64, n int, access qp.Access) ([]byte, reason.Detail) {
	if pos < c.start {
		c.Reset()
	}
	for c.entry < len(list) && pos-c.start >= uint64(list[c.entry].Length) {
		c.start += uint64(list[c.entry].Length)
		c.entry++
	}
	if c.entry >= len(list) {
		return nil, reason.Detail{Reason: reason.LocalLength, Expected: c.start, Found: pos + uint64(n)}
	}
	e := &list[c.entry]
	if c.region == nil || c.key != e.LKey || c.access != access || !c.region.Valid() {
		r, d := t.local(pd, e, access)
		if d.Reason != reason.None {
			return nil, d
		}
		c.region, c.key, c.access = r, e.LKey, access
	}
	off := pos - c.start
	n = int(min(uint64(n), uint64(e.Length)-off))
	b := c.region.Bytes(e.Addr+off, n)
	if b == nil {
		return nil, reason.Detail{Reason: reason.LocalBounds, Expected: c.region.Base + c.region.Len(), Found: end(e.Addr, uint64(e.Length))}
	}
	return b, reason.Detail{}
}

// local finds the region of an entry and checks the whole entry against it.
func (t *Table) local(pd uint32, e *SGE, access qp.Access) (*Region, reason.Detail) {
	r := t.Lookup(e.LKey)
	if r == nil || r.Kind != MR || !r.Valid() || r.PD != pd {
		return nil, reason.Detail{Reason: reason.LocalKey, Expected: uint64(pd), Found: uint64(e.LKey)}
	}
	if r.Access&access != access {
		return nil, reason.Detail{Reason: reason.LocalAccess, Expected: uint64(access), Found: uint64(r.Access)}
	}
	return r, r.bounds(e.Addr, uint64(e.Length), reason.LocalBounds)
}

// CheckList checks every entry of a list, as a requester does before it sends
// the first packet of a message.
func (t *Table) CheckList(pd uint32, list []SGE, access qp.Access) reason.Detail {
	for i := range list {
		if list[i].Length == 0 {
			continue
		}
		if _, d := t.local(pd, &list[i], access); d.Reason != reason.None {
			return d
		}
	}
	return reason.Detail{}
}
