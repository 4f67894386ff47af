package rsocket

import "encoding/binary"

// IomapLen is the length of an entry of a table of mapped memory.
const IomapLen = 24

// An Iomap tells the peer of memory that it may write to, as a range of
// offsets of this side's own choice. The table of them lies behind the target
// table:
//
//	+-------------------------------+
//	|   offset of the first byte    |
//	+-------------------------------+
//	|            address            |
//	+---------------+---------------+
//	|     R_Key     | length, bytes |
//	+---------------+---------------+
type Iomap struct {
	Offset uint64
	Memory SGE
}

// ParseIomap parses an entry of this side's table.
func ParseIomap(b []byte) Iomap {
	return Iomap{binary.LittleEndian.Uint64(b), ParseTarget(b[8:IomapLen])}
}

// Contains reports whether an offset lies in the range.
func (m *Iomap) Contains(offset uint64) bool { return offset-m.Offset < uint64(m.Memory.Length) }

// A Remote is the peer's tables, to which this side writes.
type Remote struct {
	data ConnData
	next uint32 // index of the target table entry to write next
}

// Start sets the tables from the peer's connection data. This side's connection
// data already filled entry 0.
func (r *Remote) Start(peer *ConnData) { *r = Remote{*peer, 1 % peer.Target.Length} }

// PutTarget writes the peer's next target entry to b and returns the address and
// key to write it to.
func (r *Remote) PutTarget(b []byte, s SGE) (addr uint64, key uint32) {
	putSGE(r.data.order(), b[:SGELen], s)
	addr = r.data.Target.Addr + uint64(r.next)*SGELen
	r.next = (r.next + 1) % r.data.Target.Length
	return addr, r.data.Target.Key
}

// Iomaps returns the number of entries in the peer's table of mapped memory.
func (r *Remote) Iomaps() int { return r.data.Iomaps() }

// PutIomap writes entry i of the peer's table of mapped memory to b and returns the
// address and key to write it to.
func (r *Remote) PutIomap(b []byte, i int, m Iomap) (addr uint64, key uint32) {
	o := r.data.order()
	o.PutUint64(b, m.Offset)
	putSGE(o, b[8:IomapLen], m.Memory)
	return r.data.Target.Addr + uint64(r.data.Target.Length)*SGELen + uint64(i)*IomapLen, r.data.Target.Key
}
