package sealed

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/link"
	"softrdma/internal/memory"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/wire/psp"
)

// A middle is an attacker on the path, who gets all packets for a device and decides what arrives there.
type middle struct {
	link.Datagrams
	r     *rand.Rand
	other *middle
	heard []link.Rx // packets for the device
	held  []link.Rx
	queue []link.Rx // what arrives
}

// Receive implements link.Packets.
func (m *middle) Receive(rx *link.Rx) (bool, error) {
	for len(m.queue) == 0 {
		var in link.Rx
		if ok, err := m.Datagrams.Receive(&in); !ok || err != nil {
			return ok, err
		}
		for b := in.Data; len(b) > 0; {
			p := in
			p.Size = min(in.Size, len(b))
			p.Data, b = bytes.Clone(b[:p.Size]), b[p.Size:]
			m.heard = append(m.heard, p)
			m.meddle(p)
		}
	}
	*rx, m.queue = m.queue[0], m.queue[1:]
	return true, nil
}

// meddle decides what becomes of a packet, and what comes besides.
func (m *middle) meddle(p link.Rx) {
	r := m.r
	forged := p
	forged.Data = bytes.Clone(p.Data)
	earlier := m.heard[r.IntN(len(m.heard))]
	switch r.IntN(24) {
	case 0: // nothing arrives
		return
	case 1, 2: // later, or never
		m.held = append(m.held, p)
		return
	case 3: // once more
		forged = earlier
	case 4:
		forged.Data[r.IntN(len(p.Data))] ^= 1 << r.IntN(8)
	case 5:
		forged.Data = p.Data[:1+r.IntN(len(p.Data)-1)]
	case 6:
		forged.Data = append(forged.Data, make([]byte, 1+r.IntN(16))...)
	case 7: // as a packet that is yet to come
		binary.BigEndian.PutUint64(forged.Data[8:], binary.BigEndian.Uint64(p.Data[8:])+uint64(1+r.IntN(100)))
	case 8: // what the device has sent itself, in the name of its peer
		if n := len(m.other.heard); n > 0 {
			forged.Data = m.other.heard[r.IntN(n)].Data
		}
	case 9: // with the header of another one
		copy(forged.Data, earlier.Data[:psp.HeaderLen])
		forged.Data[len(forged.Data)-1] ^= 1 // the other one may be the same
	case 10:
		forged.Src = netip.AddrPortFrom(netip.MustParseAddr("10.0.0.3"), p.Src.Port())
	case 11:
		binary.BigEndian.PutUint32(forged.Data[4:], r.Uint32())
	case 12: // instead of the packet
		for i := range p.Data {
			p.Data[i] = byte(r.Uint32())
		}
		forged = p
	default:
		m.queue = append(m.queue, p)
		if n := len(m.held); n > 0 && r.IntN(4) == 0 {
			i := r.IntN(n)
			m.queue, m.held = append(m.queue, m.held[i]), append(m.held[:i:i], m.held[i+1:]...)
		}
		return
	}
	forged.Size = len(forged.Data)
	// A copy of a packet that has not arrived may be it, wherever it comes from.
	m.queue = append(m.queue, p, forged)
}

// A ledger is a link that counts what its device sends, and checks what the peer's device gets.
type ledger struct {
	*Link
	t    *testing.T
	peer *ledger
	sent map[string]int
}

func (d *ledger) Send(tx *link.Tx) error {
	for b := bytes.Join(tx.Pieces, nil); len(b) > 0; b = b[min(tx.Size, len(b)):] {
		d.sent[string(b[:min(tx.Size, len(b))])]++
	}
	return d.Link.Send(tx)
}

func (d *ledger) Receive(rx *link.Rx) (bool, error) {
	ok, err := d.Link.Receive(rx)
	if !ok || err != nil {
		return ok, err
	}
	for b := rx.Data; len(b) > 0; b = b[min(rx.Size, len(b)):] {
		p := string(b[:min(rx.Size, len(b))])
		if d.peer.sent[p]--; d.peer.sent[p] < 0 {
			d.t.Errorf("%v got a packet of %d bytes more often than it was sent", d.Local(), len(p))
		}
	}
	rx.Intact = false // so that the device checks the ICRC
	return true, nil
}

// has reports whether bytes are in a packet that the device has sent.
func (d *ledger) has(b []byte) bool {
	for p := range d.sent {
		if strings.Contains(p, string(b)) {
			return true
		}
	}
	return false
}

// A man in the middle holds packets back, repeats, changes, cuts and extends them, sends the device its own ones, and others.
// A device gets each packet at most as often as it was sent, all operations are executed once and rightly, and nothing
// of the messages is in the packets.
func TestAttackManInTheMiddle(t *testing.T) {
	refused := map[reason.Reason]uint64{}
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			n := simnet.New(seed)
			var ms [2]*middle
			var ds [2]*ledger
			hs, es := hostsOver(t, n, simnet.LinkConfig{}, func(i int, on link.Datagrams) link.Datagrams {
				ms[i] = &middle{Datagrams: on, r: rand.New(rand.NewPCG(seed, uint64(i)))}
				return ms[i]
			}, func(i int, l *Link) link.Datagrams {
				ds[i] = &ledger{Link: l, t: t, sent: map[string]int{}}
				return ds[i]
			})
			for i := range ms {
				ms[i].other, ds[i].peer = ms[1-i], ds[1-i]
			}
			es[1].limit = 200_000
			join(t, es[0], es[1], addrs[0], addrs[1], always)
			operate(t, hs, func(round int) {
				if round%5 == 3 {
					es[round%2].Rotate()
				}
			})
			marker := noise(4096)[64:80]
			for i, m := range ms {
				if !ds[i].has(marker) {
					t.Error("no part of a message was sent")
				}
				for r := reason.PSPPacket; r <= reason.PSPReplay; r++ {
					refused[r] += hs[i].Dev.Trace.Counter(r)
				}
				for _, p := range m.heard {
					if bytes.Contains(p.Data, marker) {
						t.Fatal("a part of a message is in a packet")
					}
				}
			}
		})
	}
	for _, r := range []reason.Reason{reason.PSPPacket, reason.PSPSPI, reason.PSPSource, reason.PSPIntegrity, reason.PSPReplay} {
		if refused[r] == 0 {
			t.Errorf("no packet was refused by %v", r)
		}
	}
}

// operate connects two devices, and checks the memory after each of some rounds of a SEND, a WRITE, an atomic and a READ.
func operate(t *testing.T, hs [2]*rig.Host, after func(round int)) {
	t.Helper()
	var cqs [2]*adapter.CQ
	var qps [2]*adapter.QP
	for i, h := range hs {
		var err error
		if cqs[i], err = h.Dev.CreateCQ(64, nil); err != nil {
			t.Fatal(err)
		}
		if qps[i], err = h.PD.CreateQP(&adapter.QPConfig{
			Type: qp.RC, SendCQ: cqs[i], RecvCQ: cqs[i], SendDepth: 16, SendSGE: 2, RecvDepth: 16, RecvSGE: 2,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := rig.Connect(qps[0], qps[1], rig.Options{}); err != nil {
		t.Fatal(err)
	}
	// Each side has a counter or the result of the atomic, then one place for each operation.
	const part, at = 4096, 0x10000
	const send, write, read, size = part, 2 * part, 3 * part, 4 * part
	var mem [2][]byte
	var mrs [2]*memory.Region
	for i, h := range hs {
		mem[i] = make([]byte, size)
		var err error
		if mrs[i], err = h.PD.Register(mem[i], at, qp.LocalWrite|qp.RemoteWrite|qp.RemoteRead|qp.RemoteAtomic); err != nil {
			t.Fatal(err)
		}
	}
	place := func(side, offset, length int) []memory.SGE {
		return []memory.SGE{{Addr: uint64(at + offset), Length: uint32(length), LKey: mrs[side].Key}}
	}
	for round := range 20 {
		copy(mem[0][send:], noise(part))
		copy(mem[0][write:], noise(part))
		copy(mem[1][read:], noise(part))
		for _, x := range [][]byte{mem[0][send:], mem[0][write:], mem[1][read:]} {
			x[0] = byte(round + 1)
		}
		if err := rig.PostRecv(qps[1].Recv, uint64(round), place(1, send, part)...); err != nil {
			t.Fatal(err)
		}
		to := func(op queue.Op, local, remote, length int) rig.Send {
			return rig.Send{Op: op, Flags: queue.Signaled, SGEs: place(0, local, length), Addr: uint64(at + remote), RKey: mrs[1].Key, CompareAdd: 1}
		}
		if err := rig.PostSend(qps[0], to(queue.Send, send, 0, part), to(queue.Write, write, write, part), to(queue.FetchAdd, 0, 0, 8), to(queue.Read, read, read, part)); err != nil {
			t.Fatal(err)
		}
		for side, n := range []int{4, 1} {
			got, err := hs[side].Wait(cqs[side], n)
			if err != nil {
				t.Fatalf("round %d, side %d: %v", round, side, err)
			}
			for _, c := range got {
				if c.Status != queue.Success {
					t.Fatalf("round %d, side %d: %+v", round, side, c)
				}
			}
		}
		counter, before := binary.NativeEndian.Uint64(mem[1]), binary.NativeEndian.Uint64(mem[0])
		if !bytes.Equal(mem[0][part:], mem[1][part:]) || counter != uint64(round+1) || before != uint64(round) {
			t.Fatalf("round %d: the memory differs, or the counter of %d, %d before, is wrong", round, counter, before)
		}
		after(round)
	}
}
