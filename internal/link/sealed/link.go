package sealed

import (
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/wire/psp"
)

// A Link is a link.Datagrams that seals the packets of another one.
type Link struct {
	over  link.Datagrams
	e     *Endpoint
	meet  link.Introducer
	local netip.AddrPort
	caps  link.Capabilities

	returner link.Returner // of the other link; nil if it cannot
	due      atomic.Bool   // keepalives may be

	// Flows by handle, nil if free, and the number of uses of each flow of the other link.
	flows []*flow
	reply flow

	// Of Send.
	out     []byte
	pieces  [1][]byte
	outside link.Tx

	// Of Receive. Packets are decrypted to plain, with room for a UDP header in front.
	plain   []byte
	arrived link.Rx
	rest    []byte // of arrived: packets that were not opened
	refused reason.Detail
	last    *inbound
	early   early
}

// A flow is a flow of the device and the one of the other link that carries it.
type flow struct {
	link.DatagramFlow
	outer *link.DatagramFlow
	peer  *peer
	way   way // of outer
	label uint32
	uses  int
}

var _ link.Datagrams = (*Link)(nil)

// New seals the packets of another link, which belongs to it from then on. Meet makes keys known.
func New(over link.Datagrams, e *Endpoint, meet link.Introducer) *Link {
	below := over.Capabilities()
	l := &Link{
		over: over, e: e, meet: meet, local: netip.AddrPortFrom(over.Local().Addr(), e.device),
		out: make([]byte, link.MaxBatch), plain: make([]byte, udpLen+1<<16),
	}
	l.returner = below.Returner
	l.caps = link.Capabilities{
		Packets: below.Packets, Bytes: below.Bytes, Overhead: below.Overhead + Overhead, ReceiveBuffer: below.ReceiveBuffer,
		Segmentation: below.Segmentation, Watcher: below.Watcher, Introducer: meet, Translator: e,
	}
	if below.Frame != 0 {
		l.caps.Frame = below.Frame - Overhead
	}
	if below.Fragmenter != nil {
		l.caps.Fragmenter = l
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.links = append(e.links, l)
	return l
}

// Local implements link.Datagrams.
func (l *Link) Local() netip.AddrPort { return l.local }

// Capabilities implements link.Packets.
func (l *Link) Capabilities() link.Capabilities { return l.caps }

// Wait implements link.Waiter.
func (l *Link) Wait(d time.Duration) error { return l.over.Wait(d) }

// Wake implements link.Waiter.
func (l *Link) Wake() { l.over.Wake() }

// Close implements link.Waiter.
func (l *Link) Close() error {
	l.e.leave(l)
	return l.over.Close()
}

// OpenFlow implements link.Datagrams. The peer has given this device a key.
func (l *Link) OpenFlow(dst netip.AddrPort, label uint32) (*link.DatagramFlow, error) {
	f := &flow{label: label, uses: 1}
	if err := l.lead(f, dst); err != nil {
		return nil, err
	}
	free := -1
	for i, x := range l.flows {
		switch {
		case x == nil:
			free = i
		case x.outer == f.outer && x.Dst == plain(dst):
			x.uses++
			l.over.CloseFlow(&f.outer.Flow)
			return &x.DatagramFlow, nil
		}
	}
	if free < 0 {
		free = len(l.flows)
		l.flows = append(l.flows, nil)
	}
	l.flows[free] = f
	f.Handle, f.Src, f.Dst = free, f.outer.Src, plain(dst)
	if f.Src == plain(l.over.Local()) { // the other link had no socket left
		f.Src = plain(l.local)
	}
	return &f.DatagramFlow, nil
}

// lead finds the peer of a flow, and opens the flow of the other link to it. The flow stays as it is if that fails.
func (l *Link) lead(f *flow, dst netip.AddrPort) error {
	if dst.Addr().IsMulticast() {
		return errGroup(dst.Addr())
	}
	p, err := l.e.keyOf(dst)
	if err != nil {
		return err
	}
	w := p.way(p.out.Load().port)
	outer, err := l.openWay(w, f.label)
	if err != nil {
		return err
	}
	f.peer, f.way, f.outer, f.Numbering = p, w, outer, outer.Numbering
	return nil
}

// Reply implements link.Datagrams.
func (l *Link) Reply(dst netip.AddrPort) (*link.DatagramFlow, error) {
	p, err := l.e.keyOf(dst)
	if err != nil {
		return nil, err
	}
	f := &l.reply
	*f = flow{peer: p, way: p.way(p.out.Load().port)}
	if !f.way.to.IsValid() {
		return nil, errNoKey(0)
	}
	if f.outer, err = l.over.Reply(f.way.to); err != nil {
		return nil, err
	}
	f.Handle, f.Src, f.Dst, f.Numbering = -1, plain(l.local), plain(dst), f.outer.Numbering
	return &f.DatagramFlow, nil
}

// CloseFlow implements link.Datagrams.
func (l *Link) CloseFlow(p *link.Flow) {
	f := l.find(p)
	if f == nil || f == &l.reply {
		return
	}
	if f.uses--; f.uses == 0 {
		l.flows[p.Handle] = nil
		l.over.CloseFlow(&f.outer.Flow)
	}
}

func (l *Link) find(p *link.Flow) *flow {
	if p == &l.reply.Flow {
		return &l.reply
	}
	if p == nil || uint(p.Handle) >= uint(len(l.flows)) {
		return nil
	}
	if f := l.flows[p.Handle]; f != nil && &f.Flow == p {
		return f
	}
	return nil
}

// Join implements link.Datagrams. PSP has keys of pairs only.
func (l *Link) Join(group netip.Addr) error { return errGroup(group) }

// Leave implements link.Datagrams.
func (l *Link) Leave(group netip.Addr) error { return errGroup(group) }

func errGroup(group netip.Addr) error {
	return reason.NotSupported("multicast group %v: expected a peer's address: keys are of two devices", group)
}

// Send implements link.Packets.
func (l *Link) Send(tx *link.Tx) error {
	f := l.find(tx.Flow)
	if f == nil {
		return fmt.Errorf("send: expected a flow that is open, found none")
	}
	out, err := l.keyFor(f)
	if err != nil {
		return err
	}
	n := (tx.Bytes + tx.Size - 1) / max(tx.Size, 1)
	if tx.Size <= 0 || n > l.caps.Packets || tx.Bytes+n*Overhead > min(l.caps.Bytes, len(l.out)) {
		return fmt.Errorf("send: expected 1 to %d packets of up to %d bytes in all with %d for each, found %d bytes in packets of %d",
			l.caps.Packets, l.caps.Bytes, Overhead, tx.Bytes, tx.Size)
	}
	if sealed := out.bytes.Add(uint64(tx.Bytes)); sealed/unrenewed > l.e.limit {
		return errNoKey(sealed)
	}
	h := psp.Header{Next: psp.NextUDP, IV: out.iv.Add(uint64(n)) - uint64(n)}
	from := source{pieces: tx.Pieces}
	b := l.out[:0]
	for left := tx.Bytes; left > 0; {
		size := min(tx.Size, left)
		left -= size
		p := b[len(b) : len(b)+size+Overhead]
		b = b[:len(b)+len(p)]
		u := p[psp.HeaderLen:]
		putUDP(u, f.Src.Port(), f.Dst.Port(), udpLen+size)
		if !from.read(u[udpLen : udpLen+size]) {
			return fmt.Errorf("send: expected %d bytes in pieces, found less", tx.Bytes)
		}
		if err := out.key.Seal(p, &h); err != nil {
			return err
		}
		h.IV++
	}
	l.pieces[0] = b
	l.outside = link.Tx{
		Pieces: l.pieces[:], Bytes: len(b), Size: tx.Size + Overhead, Queue: tx.Queue, Flow: &f.outer.Flow, TOS: tx.TOS, HopLimit: tx.HopLimit,
	}
	f.outer.Segments = f.Segments
	err = l.over.Send(&l.outside)
	f.Numbering = f.outer.Numbering
	return err
}

// keyFor returns the key to send with. A device that was opened again may have another port, and a translator may have
// given a peer another address.
func (l *Link) keyFor(f *flow) (*outbound, error) {
	if why := f.peer.refused.Load(); why != nil {
		return nil, why
	}
	out := f.peer.out.Load()
	if f.way.back {
		l.e.busy(f.peer)
	}
	if f == &l.reply || f.peer.way(out.port) == f.way && !f.peer.gone.Load() {
		return out, nil
	}
	old := f.outer
	if err := l.lead(f, f.Dst); err != nil {
		return nil, err
	}
	l.over.CloseFlow(&old.Flow)
	return f.peer.out.Load(), nil
}

// A source reads the bytes of pieces in turn.
type source struct {
	pieces [][]byte
	at     int
}

func (s *source) read(b []byte) bool {
	for len(b) > 0 {
		if len(s.pieces) == 0 {
			return false
		}
		n := copy(b, s.pieces[0][s.at:])
		b, s.at = b[n:], s.at+n
		if s.at == len(s.pieces[0]) {
			s.pieces, s.at = s.pieces[1:], 0
		}
	}
	return true
}

// Fragment implements link.Fragmenter.
func (l *Link) Fragment(p *link.Flow, m link.Fragmentation) {
	if f := l.find(p); f != nil {
		l.over.Capabilities().Fragmenter.Fragment(&f.outer.Flow, m)
		f.Numbering = f.outer.Numbering
	}
}
