package fabric

import (
	"encoding/binary"
	"math/bits"

	"softrdma/internal/link"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// An End is one end of the rings between a program and its port: 16 to send and 16 to
// receive. One goroutine at a time uses it.
type End struct {
	memory     *hostmem.Memory
	out        [Levels]*hostmem.Sender
	in         [Levels]*hostmem.Receiver
	sent, told index
	longest    int    // packet
	telemetry  int    // bytes in front of the packet that the other end may send
	header     []byte // of the next message: the size of its packets, and what Headers says
	one        [1][]byte
	two        [2][]byte
	hops       []byte // of the next message
}

// Headers says what a message has besides its packets: nothing at a port of InfiniBand, whose packets
// have all their headers; the headers of its datagrams at a port of Ethernet.
type Headers int

// The headers.
const (
	NoHeaders       Headers = 0
	DatagramHeaders Headers = datagramLen
)

// Shortest and Longest return the least and the greatest length of a packet with its Headers in front.
func (h Headers) Shortest() int {
	if h == DatagramHeaders {
		return datagramLen + 1
	}
	return ib.LRHLen
}

// Longest is described at Shortest.
func (h Headers) Longest() int {
	if h == DatagramHeaders {
		return datagramLen + maxEthernet
	}
	return ib.MaxNativeLen - ib.VCRCLen
}

// Level returns the number of the ring of a packet with its Headers in front, of at least Shortest bytes:
// its service level, or the priority of its datagrams.
func (h Headers) Level(b []byte) uint8 {
	if h == DatagramHeaders {
		return b[tosAt] >> priorityShift
	}
	return b[1] >> 4
}

// areaSize is the size of the rings of one direction. The rings that the fabric sends on come
// first.
var areaSize = hostmem.AreaSize(Levels, 1)

// MemorySize is the size of the memory of both directions with their indexes.
var MemorySize = (indexesLen + 2*areaSize + 65535) &^ 65535

// NewEnd returns the fabric's end, and makes the memory.
func NewEnd(h Headers) (*End, error) {
	m, err := hostmem.NewMemory(MemorySize)
	if err != nil {
		return nil, err
	}
	b := m.Bytes()[indexesLen:]
	// Set the geometry of the program's area before the program opens it.
	out, in := hostmem.NewArea(b[:areaSize], Levels, 1), hostmem.NewArea(b[areaSize:2*areaSize], Levels, 1)
	e := newEnd(m, out, in, h)
	e.sent, e.told = newIndex(m.Bytes(), 0), newIndex(m.Bytes(), 1)
	return e, nil
}

// OpenEnd returns the program's end, in memory whose descriptor the fabric has passed. The
// caller keeps the descriptor.
func OpenEnd(fd int, h Headers) (*End, error) {
	m, err := hostmem.MapMemory(fd, MemorySize, true)
	if err != nil {
		return nil, err
	}
	b := m.Bytes()[indexesLen:]
	in, err := hostmem.OpenArea(b[:areaSize], Levels, 1)
	if err != nil {
		_ = m.Close()
		return nil, err
	}
	e := newEnd(m, hostmem.NewArea(b[areaSize:2*areaSize], Levels, 1), in, h)
	if h == DatagramHeaders {
		e.telemetry = own.MaxHops * own.HopLen
	}
	e.sent, e.told = newIndex(m.Bytes(), 1), newIndex(m.Bytes(), 0)
	return e, nil
}

func newEnd(m *hostmem.Memory, out, in *hostmem.Area, h Headers) *End {
	e := &End{memory: m, longest: maxFrame, header: make([]byte, 2+h)}
	if h == DatagramHeaders {
		e.longest = maxEthernet
	}
	for i := range Levels {
		e.out[i], e.in[i] = out.Sender(i, 0), in.Receiver(i, 0)
	}
	return e
}

// FD returns the descriptor of the memory that NewEnd made.
func (e *End) FD() int { return e.memory.FD() }

// CloseFD closes the descriptor after it was passed to the program.
func (e *End) CloseFD() error { return e.memory.CloseFD() }

// Close frees the memory.
func (e *End) Close() error { return e.memory.Close() }

// Room reports whether packets of n bytes in total fit for a service level. If not, the other
// end rings the bell when it has made room.
func (e *End) Room(sl uint8, messages, n int) bool {
	s := e.out[sl%Levels]
	for !s.Room(messages, n) {
		if s.AwaitRoom() {
			return false
		}
	}
	return true
}

// Longest returns the length of the longest packet that may pass.
func (e *End) Longest() int { return e.longest }

// Put publishes packets of size bytes each, the last perhaps shorter, n bytes in total, and
// reports whether there was room.
func (e *End) Put(sl uint8, size int, pieces [][]byte, n int) bool {
	beforePut()
	binary.LittleEndian.PutUint16(e.header, uint16(size))
	if !e.out[sl%Levels].Copy(&hostmem.Head{Kind: hostmem.Packet}, e.header, pieces, n) {
		return false
	}
	e.sent.add(sl % Levels)
	return true
}

// Follows reports whether a packet may follow another one in a batch: it is not longer, its
// length field is correct, and the headers differ only in lengths.
func Follows(packet, next []byte) bool {
	var p, n ib.LRH
	if len(next) > len(packet) || !p.Parse(packet) || !n.Parse(next) || 4*int(n.Words) != len(next) {
		return false
	}
	if p.Words = n.Words; p != n {
		return false
	}
	if n.Next != ib.GlobalGRH {
		return true
	}
	var pg, ng ib.GRH
	if len(next) < n.HeaderLen() || !pg.Parse(packet[ib.LRHLen:]) || !ng.Parse(next[ib.LRHLen:]) {
		return false
	}
	pg.PayLen = ng.PayLen
	return pg == ng && int(ng.PayLen) == len(next)-n.HeaderLen()
}

// PutOne publishes one packet, with its Headers in front, and reports whether there was room.
func (e *End) PutOne(sl uint8, b []byte) bool {
	packet := b[copy(e.header[2:], b):]
	e.one[0] = packet
	ok := e.Put(sl, len(packet), e.one[:], len(packet))
	e.one[0] = nil
	return ok
}

// Sleeps reports whether the other end sleeps and must be woken for messages published on a
// service level.
func (e *End) Sleeps(sl uint8) bool { return e.sent.takeArmed(sl % Levels) }

// PutDatagrams publishes the payloads of datagrams, as Put does packets.
func (e *End) PutDatagrams(priority uint8, d *Datagram, size int, pieces [][]byte, n int) bool {
	d.put(e.header[2:])
	return e.Put(priority, size, pieces, n)
}

// Deliver publishes the payload of a datagram, or a frame, with what the switches of its path said: Room
// counts both. Only the fabric's end does so.
func (e *End) Deliver(priority uint8, d *Datagram, hops []own.Hop, payload []byte) bool {
	e.hops = e.hops[:0]
	for i := range hops {
		e.hops = hops[i].Append(e.hops)
	}
	e.two = [2][]byte{e.hops, payload}
	count := &e.header[2+hopsAt]
	*count = uint8(len(hops))
	ok := e.PutDatagrams(priority, d, len(payload), e.two[:], len(e.hops)+len(payload))
	*count, e.two[1] = 0, nil
	return ok
}

// A Batch is a group of packets that an End has received.
type Batch struct {
	Data    []byte // in shared memory, which the other side may change at any time
	Size    int    // of each packet; the last may be shorter
	Headers []byte // a private copy, as the other side has written it; valid until Release
	Hops    []byte // what switches said of the packet, in shared memory as Data is; see Deliver

	message hostmem.Received
}

// Waiting returns the service levels with messages.
func (e *End) Waiting() (levels uint16) { return e.told.waiting() }

// NextLevel returns the first nonempty service level of a set, searching cyclically from one
// on.
func NextLevel(levels uint16, from uint8) uint8 {
	turned := bits.RotateLeft16(levels, -int(from))
	return (from + uint8(bits.TrailingZeros16(turned))) % Levels
}

// Next reads the next message of a service level and reports whether there is one. Release
// frees it. A fault means that the other side has violated the protocol.
func (e *End) Next(sl uint8, b *Batch) (ok bool, fault reason.Detail) {
	published := e.told.published[sl].Load()
	if published == e.told.taken[sl] {
		return false, reason.Detail{}
	}
	ok, fault = e.in[sl].Next(&b.message)
	if !ok {
		e.told.taken[sl] = published // the count that the sender should have published
		return false, fault
	}
	afterNext()
	m := &b.message
	if m.Kind != hostmem.Packet || m.Refers || len(m.Header) != len(e.header) || len(m.Payload) == 0 || len(m.Payload) > link.MaxBatch {
		return false, reason.Detail{Reason: reason.FabricBatch, Expected: link.MaxBatch, Found: uint64(len(m.Payload))}
	}
	size := int(binary.LittleEndian.Uint16(m.Header))
	if size == 0 || size > e.longest {
		return false, reason.Detail{Reason: reason.FabricBatch, Expected: uint64(e.longest), Found: uint64(size)}
	}
	b.Data, b.Size, b.Headers, b.Hops = m.Payload, size, m.Header[2:], nil
	if len(b.Headers) == datagramLen && b.Headers[hopsAt] != 0 {
		n := int(b.Headers[hopsAt]) * own.HopLen
		if n > e.telemetry || n+size != len(m.Payload) {
			return false, reason.Detail{Reason: reason.FabricBatch, Expected: uint64(e.telemetry), Found: uint64(n)}
		}
		b.Hops, b.Data, b.Headers[hopsAt] = m.Payload[:n], m.Payload[n:], 0
	}
	return true, reason.Detail{}
}

// Release frees the message that Next has read, and reports whether the other end waits for
// room and must be woken.
func (e *End) Release(sl uint8) (ring bool) {
	e.told.taken[sl]++
	return e.in[sl].Release()
}

// Arm asks the other end to ring the bell for the next message of each service level outside a
// mask. It reports false if there is a message already.
func (e *End) Arm(except uint16) (empty bool) { return e.told.arm(^except) }

// Disarm ends Arm.
func (e *End) Disarm() { e.told.disarm() }
