package memory

import "softrdma/internal/qp"

// scratch is the number of bytes of a void region that exist: those of the longest packet.
const scratch = 4096

// RegisterVoid registers a region of length bytes whose content does not matter, for simulations
// that move more data than they have memory for. All of it lies in the same few bytes: what is read
// is undefined. An access of more than 4096 bytes fails like one outside the region.
func (t *Table) RegisterVoid(pd uint32, length, base uint64, access qp.Access) (*Region, error) {
	mem := make([]byte, min(length, scratch))
	return t.register(&Region{Kind: MR, PD: pd, Base: base, Access: access, mem: mem, void: length - uint64(len(mem))})
}

// beyond is Bytes for bytes that are not all in mem.
func (r *Region) beyond(off uint64, n int) []byte {
	if r.void == 0 || n > len(r.mem) || off > r.Len() || uint64(n) > r.Len()-off {
		return nil
	}
	return r.mem[:n:n]
}
