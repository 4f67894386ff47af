//go:build linux && !softrdma_portable

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/link"
)

const (
	// multiAfter is the number of packets received one by one, without a pause, after which the
	// next call receives several. It doubles, up to multiLate, with each such call that finds one.
	multiAfter = 3
	multiLate  = 100

	// multiCredit is the number of calls that may receive one packet each before the link receives
	// packets one by one again.
	multiCredit = 8

	// multiMost is the number of packets that one call receives at most.
	multiMost = 16

	// multiSlot is the longest slot: more than a packet of RoCE.
	multiSlot = 8 << 10

	// maxReceived is more than the longest datagram, or than the longest batch that the kernel joins.
	maxReceived = 1 << 16
)

// A multiMode receives several packets by one system call (recvmmsg) if many arrive that the kernel
// has not joined to a batch. It joins none without a UDP checksum (udp_gro_receive of Linux), and
// Soft RoCE sends none with one, as annex A17.3.2.4 requires.
//
// The packets are received into adjacent slots, so that those of one length are a batch as the kernel
// would have made it.
type multiMode struct {
	row    int // packets received one by one since the socket was empty
	after  int // the row before several are received
	credit int
	usual  int // length for which the slots are made
	last   int // length of the packet received last

	m       *multi // nil before the first use
	at, end int    // messages of m that have not been delivered
}

// A multi is the memory of multiMode.
type multi struct {
	slot   int // length of a slot, 0 before the first use
	heads  [multiMost]unix.Mmsghdr
	iov    [multiMost][2]unix.Iovec
	fields [multiMost]fields
	names  [multiMost]unix.RawSockaddrInet6
	data   [maxReceived]byte

	control [multiMost][controlLen]byte
	// What is longer than its slot continues in a buffer of its own, behind room for the slot's bytes.
	// Memory that is not used is never touched.
	long [multiMost][maxReceived]byte
}

// waits reports whether packets were received that have not been delivered.
func (m *multiMode) waits() bool { return m.at < m.end }

// due reports whether the next call is to receive several packets.
func (m *multiMode) due() bool {
	return (m.credit > 0 || m.row >= max(m.after, multiAfter)) && m.usual <= multiSlot
}

// count counts a batch that was received by itself, or that there was none.
func (m *multiMode) count(ok bool, rx *link.Rx) {
	if !ok || len(rx.Data) > rx.Size {
		m.row = 0
		return
	}
	m.row++
	if m.row == 1 || rx.Size == m.last || rx.Size > m.usual {
		m.usual = rx.Size
	}
	m.last = rx.Size
}

// fromMulti receives several packets from a socket, and delivers the first batch.
func (r *receiver) fromMulti(fd int, rx *link.Rx) (bool, unix.Errno) {
	m := &r.multi
	if m.m == nil {
		m.m = new(multi)
	}
	n, err := m.m.receive(fd, m.usual)
	m.row, m.at, m.end = 0, 0, n
	usual, joined := m.m.usual(n)
	switch {
	case n == 0:
	case joined: // they need fewer calls as they are
		m.credit = 0
	case n == 1:
		m.credit = max(m.credit-1, 0)
		m.after = min(max(2*m.after, multiAfter), multiLate)
	default:
		r.single.run, m.after, m.credit, m.usual = 0, multiAfter, multiCredit, usual
	}
	return r.deliver(rx), err
}

// receive receives up to as many packets as there are slots of a length, and returns their number.
func (m *multi) receive(fd, slot int) (n int, err unix.Errno) {
	slots := min(multiMost, len(m.data)/slot)
	if m.slot != slot {
		m.split(slot)
	}
	for i := range slots {
		h := &m.heads[i].Hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(controlLen)
	}
	for range 8 {
		n, _, err := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m.heads)), uintptr(slots), unix.MSG_DONTWAIT, 0, 0)
		switch err {
		case 0:
			for i := range int(n) {
				m.fields[i].read(m.control[i][:m.heads[i].Hdr.Controllen])
			}
			return int(n), 0
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return 0, 0
		}
		return 0, err
	}
	return 0, 0
}

// split makes slots of a length.
func (m *multi) split(slot int) {
	m.slot = slot
	for i := range min(multiMost, len(m.data)/slot) {
		v := &m.iov[i]
		v[0].Base, v[1].Base = &m.data[i*slot], &m.long[i][slot]
		v[0].SetLen(slot)
		v[1].SetLen(maxReceived - slot)
		h := &m.heads[i].Hdr
		h.Name, h.Iov, h.Control = (*byte)(unsafe.Pointer(&m.names[i])), &v[0], &m.control[i][0]
		h.SetIovlen(len(v))
	}
}

// usual returns the length for the slots of the next call, after n messages: that of packets that
// follow each other, or else that of the longest. It reports whether the kernel has joined some.
func (m *multi) usual(n int) (length int, joined bool) {
	longest, fits, same := 1, false, 0
	for i := range n {
		l := m.length(i)
		if i > 0 && l == m.length(i-1) {
			same = l
		}
		longest, fits = max(longest, l), fits || l == m.slot
		joined = joined || m.fields[i].segment > 0
	}
	switch {
	case same > 0:
		return same, joined
	case fits && 2*m.slot > longest:
		return m.slot, joined // the longest are few, such as the last of a READ's responses
	}
	return longest, joined
}

// length returns the length of the packet of a message, or of those that the kernel joined.
func (m *multi) length(i int) int { return int(m.heads[i].Len) }

// deliver delivers the next batch that fromMulti has received, and reports whether there was one.
func (r *receiver) deliver(rx *link.Rx) bool {
	for m := &r.multi; m.waits(); {
		first, end := m.at, m.end
		if source(&m.m.names[first]) == r.local {
			end = first + 1 // handed over by another process, each for itself
		}
		data, n := m.m.batch(first, end)
		if m.at += n; len(data) == 0 {
			continue // an empty datagram
		}
		r.fill(rx, data, &m.m.names[first], &m.m.fields[first])
		if n > 1 {
			rx.Size = m.m.slot
		}
		return true
	}
	return false
}

// batch returns the packets from a message on that are a batch, and the number of its messages.
func (m *multi) batch(first, end int) (data []byte, n int) {
	length := m.length(first)
	if length > m.slot {
		b := &m.long[first]
		copy(b[:m.slot], m.data[first*m.slot:])
		return b[:length:length], 1
	}
	at := first
	for m.length(at) == m.slot && at+1 < end && m.follows(at+1) {
		at++
	}
	from, to := first*m.slot, at*m.slot+m.length(at)
	return m.data[from:to:to], at - first + 1
}

// follows reports whether a message is a packet from the same peer as the one before it, with the same fields.
func (m *multi) follows(i int) bool {
	n := m.length(i)
	return n > 0 && n <= m.slot && m.names[i] == m.names[i-1] && m.fields[i] == m.fields[i-1] && m.fields[i].segment == 0
}
