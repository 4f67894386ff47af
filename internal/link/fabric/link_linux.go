package fabric

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/reason"
	"softrdma/internal/wake"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/ib/own"
)

// A Link carries the packets of one port. It exists before it is connected, and outlives the
// fabric. Without a fabric it receives nothing and loses what is sent.
type Link struct {
	wake.Lifetime
	sleep  wake.Sleeper
	bells  *hostmem.Bells
	watch  int // see Watch; -1 if not set
	lid    atomic.Uint32
	broken func(reason.Detail)

	mu     sync.Mutex // guards end and ringer
	end    *End       // nil without a fabric
	ringer *hostmem.Ringer
	next   uint8 // service level at which Receive starts
	batch  Batch
	read   int // bytes of batch that were received; 0 without a batch
	level  uint8

	port   EthernetPort           // nil if not set
	member func(mgid []byte) bool // see Members; nil if not set
	looped [][]byte               // packets to own groups, for Receive

	hops   [own.MaxHops * own.HopLen]byte // of batch
	told   int                            // bytes of hops
	buffer [receiveLen]byte
}

// receiveLen is the most that Receive copies at once: a few packets, which stay in the L1
// cache until they are copied to their destination.
const receiveLen = 4 * maxFrame

var (
	_ link.Watcher = (*Link)(nil)
	_ link.Limited = (*Link)(nil)
)

// New returns a link that is not connected. broken is called, perhaps within Receive, if the
// fabric's process violates the protocol of the rings. The link is then disconnected.
func New(broken func(reason.Detail)) (*Link, error) {
	l := &Link{watch: -1, broken: broken}
	if err := l.sleep.Init(); err != nil {
		return nil, err
	}
	var err error
	if l.bells, err = hostmem.NewBells(); err != nil {
		l.sleep.Free()
		return nil, err
	}
	l.Lifetime.Init(func() {
		l.Disconnect()
		l.bells.Close()
		l.sleep.Free()
	})
	return l, nil
}

// An EthernetPort is what the links of a port of an Ethernet ask it for.
type EthernetPort interface {
	// SetGroup begins or ends receiving what is sent to a group. See Group and GroupMAC.
	SetGroup(group [16]byte, on bool)

	// Host returns the MAC address of the host with an IP address, if the port knows it. FindHost asks
	// for it, and reports whether there is such a host.
	Host(ip netip.Addr) (mac [6]byte, known bool)
	FindHost(ip netip.Addr) (mac [6]byte, found bool, err error)
}

// SetPort sets the port to which the link is connected. It is called before the link is used.
func (l *Link) SetPort(p EthernetPort) { l.port = p }

// NewBell returns a bell that the fabric rings to wake the link.
func (l *Link) NewBell() (*hostmem.Bell, error) {
	if !l.Enter() {
		return nil, link.ErrClosed
	}
	defer l.Leave()
	return l.bells.Add(nil)
}

// Connect gives the link its end of the rings and the fabric's bell. The link then owns both.
func (l *Link) Connect(e *End, r *hostmem.Ringer) {
	l.mu.Lock()
	closed := !l.Enter()
	if !closed {
		l.end, l.ringer = e, r
		l.Leave()
	}
	l.mu.Unlock()
	if closed {
		closeEnd(e, r)
		return
	}
	l.Wake()
}

// Disconnect frees the rings.
func (l *Link) Disconnect() {
	l.mu.Lock()
	e, r := l.end, l.ringer
	l.end, l.ringer, l.read = nil, nil, 0
	l.mu.Unlock()
	closeEnd(e, r)
}

func closeEnd(e *End, r *hostmem.Ringer) {
	if e != nil {
		_ = e.Close()
	}
	if r != nil {
		_ = r.Close()
	}
}

// SetLID sets the result of LID.
func (l *Link) SetLID(first ib.LID, lmc uint8) { l.lid.Store(uint32(first)<<8 | uint32(lmc)) }

// LID returns the port's LIDs, see SetLID.
func (l *Link) LID() (first ib.LID, lmc uint8) {
	v := l.lid.Load()
	return ib.LID(v >> 8), uint8(v)
}

// Capabilities implements link.Packets.
func (l *Link) Capabilities() link.Capabilities {
	c := capabilities
	c.Watcher, c.Limited = l, l
	return c
}

// batches is the number of largest batches that Room asks for: the one being built and one
// that may precede it.
const batches = 3

// Level implements link.Limited: the service level.
func (*Link) Level(_, serviceLevel uint8) uint8 { return serviceLevel }

// Room implements link.Limited. Without a fabric it reports true.
func (l *Link) Room(sl uint8) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end == nil || l.end.Room(sl, batches, batches*link.MaxBatch)
}

// Members sets the function that reports whether the port has members of a group. Switches do
// not send a packet back to its source port, so the link gives Receive a copy of what it sends
// to such groups, as adapters do. Members is called before the link is used; Send calls f.
func (l *Link) Members(f func(mgid []byte) bool) { l.member = f }

// maxLooped limits the queue looped. Excess datagrams are lost.
const maxLooped = 1024

// loop keeps a copy of packets for the port's own members.
func (l *Link) loop(tx *link.Tx) {
	const dgidAt = ib.LRHLen + 24
	h := tx.Pieces[0]
	if l.member == nil || len(h) < ib.LRHLen+ib.GRHLen {
		return
	}
	if !ib.LID(binary.BigEndian.Uint16(h[2:])).Multicast() || !l.member(h[dgidAt:dgidAt+16]) {
		return
	}
	all := slices.Concat(tx.Pieces...)
	for len(all) > 0 && len(l.looped) < maxLooped {
		n := min(tx.Size, len(all))
		l.looped = append(l.looped, all[:n])
		all = all[n:]
	}
	l.Wake()
}

// Send implements link.Packets. It fails without a fabric, and if the service level's ring is
// full, see Room.
func (l *Link) Send(tx *link.Tx) error {
	if l.Closed() {
		return link.ErrClosed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil {
		return reason.Detail{Reason: reason.FabricGone, Expected: 1}.Err()
	}
	sl := tx.Pieces[0][1] >> 4
	if !l.end.Put(sl, tx.Size, tx.Pieces, tx.Bytes) {
		return reason.Detail{Reason: reason.FabricFull, Expected: uint64(sl), Found: uint64(tx.Bytes)}.Err()
	}
	if l.end.Sleeps(sl) {
		l.ringer.Ring()
	}
	l.loop(tx)
	return nil
}

// Receive implements link.Packets.
func (l *Link) Receive(rx *link.Rx) (bool, error) {
	if l.Closed() {
		return false, link.ErrClosed
	}
	l.mu.Lock()
	n, size, fault := l.receive()
	l.mu.Unlock()
	l.judge(fault)
	rx.Data, rx.Size = l.buffer[:n], size
	return n > 0, nil
}

// receive copies the next packets out of the rings. It returns their total length, 0 if there
// are none, and the size of each but the last.
func (l *Link) receive() (n, size int, fault reason.Detail) {
	if len(l.looped) > 0 {
		n = copy(l.buffer[:], l.looped[0])
		if l.looped = l.looped[1:]; len(l.looped) == 0 {
			l.looped = nil
		}
		return n, n, reason.Detail{}
	}
	found, fault := l.message()
	if !found {
		return 0, 0, fault
	}
	size = l.batch.Size
	n = alike(l.buffer[:copy(l.buffer[:len(l.buffer)/size*size], l.batch.Data[l.read:])], size)
	l.take(n)
	return n, min(n, size), reason.Detail{}
}

// judge ends the connection to a fabric that has violated the protocol of the rings.
func (l *Link) judge(fault reason.Detail) {
	if fault.Reason != reason.None {
		l.Disconnect()
		l.broken(fault)
	}
}

// message reports whether there is a message in batch with bytes that were not received: the one that
// is being read, or the next one.
func (l *Link) message() (bool, reason.Detail) {
	switch {
	case l.end == nil:
		return false, reason.Detail{}
	case l.read > 0:
		return true, reason.Detail{}
	}
	return l.find()
}

// telemetry returns what switches said of the packet in batch, as bytes that the other side cannot change.
func (l *Link) telemetry() []byte { return l.hops[:l.told] }

// take notes that n bytes of the message were received, and frees it at its end.
func (l *Link) take(n int) {
	if l.read += n; l.read == len(l.batch.Data) {
		l.read = 0
		if l.end.Release(l.level) {
			l.ringer.Ring()
		}
	}
}

// alike returns the length of the packets at the start of data that may form one batch,
// whatever the other side has written: at least the first packet.
func alike(batch []byte, size int) int {
	n := min(size, len(batch))
	for first := batch[:n]; n < len(batch); {
		next := batch[n:min(n+size, len(batch))]
		if !Follows(first, next) {
			break
		}
		n += len(next)
	}
	return n
}

// find reads the next message, serving the service levels in turn.
func (l *Link) find() (bool, reason.Detail) {
	for range Levels {
		levels := l.end.Waiting()
		if levels == 0 {
			break
		}
		sl := NextLevel(levels, l.next)
		l.next = (sl + 1) % Levels
		if ok, fault := l.end.Next(sl, &l.batch); ok || fault.Reason != reason.None {
			l.level, l.told = sl, copy(l.hops[:], l.batch.Hops)
			return ok, fault
		}
	}
	return false, reason.Detail{}
}

// Wait implements link.Waiter.
func (l *Link) Wait(d time.Duration) error {
	if !l.Enter() {
		return link.ErrClosed
	}
	defer l.Leave()
	if !l.arm() {
		return nil
	}
	ready, err := l.sleep.Sleep(&l.Lifetime, d, l.bells.FD(), l.watch)
	if ready&1 != 0 {
		l.bells.Rung(func(any) {})
	}
	l.disarm()
	if l.Closed() {
		return link.ErrClosed
	}
	return err
}

// arm asks for the bell and reports whether there is nothing to receive.
func (l *Link) arm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.looped) == 0 && (l.end == nil || l.read == 0 && l.end.Arm(0))
}

func (l *Link) disarm() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end.Disarm()
	}
}

// Watch implements link.Watcher.
func (l *Link) Watch(fd int) { l.watch = fd }

// Wake implements link.Waiter.
func (l *Link) Wake() {
	if l.sleep.Set() && l.Enter() {
		l.sleep.Interrupt()
		l.Leave()
	}
}

// Close implements link.Waiter.
func (l *Link) Close() error {
	if l.Closed() {
		return link.ErrClosed
	}
	l.Lifetime.Close(l.sleep.Interrupt)
	return nil
}
