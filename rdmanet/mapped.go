package rdmanet

import (
	"errors"
	"fmt"

	"softrdma/internal/reason"
	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// ErrNotMapped is the error of WriteMapped for an offset at which the peer has not
// mapped memory.
var ErrNotMapped = errors.New("no mapped memory")

// mappings is the memory that the two sides map for each other (rsockets' riomap).
type mappings struct {
	announced uint8           // the size of this side's table, encoded as in connection data
	peer      []rsocket.Iomap // the peer's mappings: a copy of this side's table
	own       []*Mapping      // this side's mappings, by index in the peer's table
}

func (m *mappings) init(iomaps int) {
	var n int
	m.announced, n = rsocket.ScaleIomaps(iomaps)
	m.peer = make([]rsocket.Iomap, n)
}

// update handles the peer's message that entry i of this side's table is new.
func (m *mappings) update(e *endpoint, i, n uint32) error {
	if err := e.rx.Counted(); err != nil {
		return err
	}
	if uint64(i) >= uint64(len(m.peer)) || n != rsocket.IomapLen {
		return &rsocket.Fault{Detail: reason.Detail{Reason: reason.SocketMapping, Expected: uint64(len(m.peer)), Found: uint64(i)}}
	}
	m.peer[i] = rsocket.ParseIomap(e.store.table[tableLen(int(i)):])
	return nil
}

// close deregisters the memory that is still mapped.
func (m *mappings) close() (err error) {
	for _, x := range m.own {
		if x != nil && x.mr != nil {
			err = errors.Join(err, x.mr.Deregister())
		}
	}
	return err
}

// A Mapping is memory that the peer may write to.
type Mapping struct {
	c  *Conn
	i  int
	mr *verbs.MR
}

// MapMemory lets the peer write to buf directly (riomap). The program chooses the
// offset at which the peer sees the first byte. This side is not notified of
// writes; the peer can send a message after them. The peer must have room for the
// mapping, see Options.MappedMemory. Closing the connection also ends the mapping.
func (c *Conn) MapMemory(buf []byte, offset uint64) (*Mapping, error) {
	c.w.turn.Lock()
	defer c.w.turn.Unlock()
	m, err := c.mapMemory(buf, offset)
	if err != nil {
		return nil, c.opError("map", err)
	}
	return m, nil
}

func (c *Conn) mapMemory(buf []byte, offset uint64) (*Mapping, error) {
	if !c.begin() {
		return nil, errClosed
	}
	defer c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.awaitRoom(wantCredit); err != nil {
		return nil, err
	}
	i := c.maps.freeEntry(c.peer.Iomaps())
	if i < 0 {
		return nil, fmt.Errorf("map memory: the peer has room for %d mappings: %w", c.peer.Iomaps(), errors.ErrUnsupported)
	}
	mr, err := c.pd.RegisterMemory(buf, verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		return nil, err
	}
	w := &c.wr[0]
	*w = verbs.SendWR{WRID: workInline}
	w.RemoteAddr, w.RKey = c.peer.PutIomap(c.small[:], i, rsocket.Iomap{
		Offset: offset, Memory: rsocket.SGE{Addr: mr.Addr(), Key: mr.RKey(), Length: uint32(len(buf))},
	})
	w.Inline = c.small[:rsocket.IomapLen]
	if !c.postMessage(rsocket.NewMessage(rsocket.OpIomap, uint32(i))) {
		return nil, errors.Join(c.err, mr.Deregister())
	}
	c.tx.Spend()
	c.tookData()
	m := &Mapping{c, i, mr}
	c.maps.own[i] = m
	return m, nil
}

// freeEntry returns the index of a free entry in a table of n entries, or -1.
func (m *mappings) freeEntry(n int) int {
	for i, x := range m.own {
		if x == nil {
			return i
		}
	}
	if len(m.own) < n {
		m.own = append(m.own, nil)
		return len(m.own) - 1
	}
	return -1
}

// Unmap ends the mapping (riounmap). The peer is not notified, and the connection
// fails if the peer writes to the memory later.
func (m *Mapping) Unmap() error {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if m.c.closed || m.c.maps.own[m.i] != m {
		return nil
	}
	m.c.maps.own[m.i] = nil
	return m.mr.Deregister()
}

// WriteMapped writes p to memory that the peer has mapped, starting at the peer's
// offset (riowrite). n is the number of bytes written. The error wraps ErrNotMapped
// if the peer has not mapped the next byte.
func (c *Conn) WriteMapped(p []byte, offset uint64) (n int, err error) {
	c.w.turn.Lock()
	defer c.w.turn.Unlock()
	for n < len(p) && err == nil {
		var k int
		k, err = c.writeMapped(p[n:], offset+uint64(n))
		n += k
	}
	if err != nil {
		err = c.opError("write", err)
	}
	return n, err
}

func (c *Conn) writeMapped(p []byte, offset uint64) (int, error) {
	if !c.begin() {
		return 0, errClosed
	}
	defer c.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.awaitRoom(wantMemory); err != nil {
		return 0, err
	}
	m := c.maps.find(offset)
	if m == nil {
		return 0, fmt.Errorf("%w at offset %#x", ErrNotMapped, offset)
	}
	at := offset - m.Offset
	off, n, id := c.out.Take(int(min(uint64(len(p)), maxTransfer, uint64(m.Memory.Length)-at)))
	defer c.doneSpan(id)
	copy(c.out.bytes[off:off+n], p)
	c.sge[0] = c.out.mr.SGE(off, n)
	c.wr[0] = verbs.SendWR{
		WRID: workData | uint64(id)<<8, Op: verbs.OpWrite, SGL: c.sge[:], RemoteAddr: m.Memory.Addr + at, RKey: m.Memory.Key,
	}
	if !c.send(1) {
		return 0, c.err
	}
	c.tookData()
	c.out.Hold(id)
	return n, nil
}

func (m *mappings) find(offset uint64) *rsocket.Iomap {
	for i := range m.peer {
		if m.peer[i].Contains(offset) {
			return &m.peer[i]
		}
	}
	return nil
}
