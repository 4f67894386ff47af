package adapter_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"softrdma/internal/adapter"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/simnet"
	"softrdma/internal/simnet/rig"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// After each refusal on the receive path the packet is dropped, only its own counter has changed,
// nothing completes, memory is unchanged, and the connection still works.
func TestReceiveRefusalCountsAndDoesNothingElse(t *testing.T) {
	edit := func(f func(b []byte) []byte) func(src, dst netip.AddrPort, b *side) []byte {
		return func(src, dst netip.AddrPort, s *side) []byte { return f(sealed(src, dst, send(s.qp, 0))) }
	}
	packet := func(f func(p *ib.Packet)) func(src, dst netip.AddrPort, b *side) []byte {
		return func(src, dst netip.AddrPort, s *side) []byte {
			p := send(s.qp, 0)
			f(p)
			return sealed(src, dst, p)
		}
	}
	for _, c := range []struct {
		name string
		want reason.Reason
		make func(src, dst netip.AddrPort, b *side) []byte
	}{
		{"empty", reason.PacketShort, edit(func([]byte) []byte { return nil })},
		{"one byte short of BTH and ICRC", reason.PacketShort, edit(func(b []byte) []byte { return b[:ib.BTHLen+ib.ICRCLen-1] })},
		{"wrong ICRC", reason.PacketICRC, edit(func(b []byte) []byte { b[len(b)-1] ^= 1; return b })},
		{"changed payload", reason.PacketICRC, edit(func(b []byte) []byte { b[ib.BTHLen] ^= 0x80; return b })},
		{"changed destination", reason.PacketICRC, edit(func(b []byte) []byte { b[7] ^= 1; return b })},
		{"RETH cut off", reason.PacketShort, raw(func(p []byte) []byte { p[0] = byte(ib.RCWriteOnly); return p })},
		{"unknown opcode", reason.PacketOpcode, raw(func(p []byte) []byte { p[0] = 0x1f; return p })},
		{"version 1", reason.PacketVersion, packet(func(p *ib.Packet) { p.Version = 1 })},
		{"padding beyond the payload", reason.PacketPad, raw(func(p []byte) []byte { p[1] |= 0x30; return append(p[:ib.BTHLen], 0, 0, 0, 0) })},
		{"length no multiple of four", reason.PacketPad, raw(func(p []byte) []byte { return append(p, 0) })},
		{"payload behind an acknowledge", reason.PacketExtraPayload, packet(func(p *ib.Packet) { p.Opcode = ib.RCAcknowledge })},
		{"other partition", reason.PacketPKey, packet(func(p *ib.Packet) { p.PKey = 0x8001 })},
		{"no such queue pair", reason.PacketQPN, packet(func(p *ib.Packet) { p.DestQPN ^= 0x10 })},
		{"queue pair 0", reason.PacketQPN, packet(func(p *ib.Packet) { p.DestQPN = 0 })},
		{"congestion notification for nobody", reason.CongestionIgnored, packet(func(p *ib.Packet) { p.Opcode, p.DestQPN = ib.CongestionNotify, p.DestQPN^0x10 })},
		{"congestion notification for queue pair 1", reason.CongestionIgnored, packet(func(p *ib.Packet) { p.Opcode, p.DestQPN = ib.CongestionNotify, 1 })},
		{"unreliable connection's opcode", reason.PacketTransport, packet(func(p *ib.Packet) { p.Opcode = ib.UCSendOnly })},
		{"datagram", reason.PacketTransport, packet(func(p *ib.Packet) { p.Opcode = ib.UDSendOnly })},
		{"multicast without a group", reason.PacketMulticast, packet(func(p *ib.Packet) { p.Opcode, p.DestQPN = ib.UDSendOnly, 0xffffff })},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := connected(t, qp.RC)
			b.recv(t, 1, 0, 1024)
			src, dst := netip.AddrPortFrom(a.Link.Local().Addr(), 0xc123), b.Link.Local()
			before, mem := counters(b.Dev), bytes.Clone(b.mem)
			if !b.Net.Inject(src, dst, 0, 64, c.make(src, dst, b)) {
				t.Fatal("not injected")
			}
			b.Dev.Progress()
			after := counters(b.Dev)
			before[c.want]++
			for r := range after {
				if after[r] != before[r] {
					t.Errorf("%v counted %d, expected %d", reason.Reason(r), after[r], before[r])
				}
			}
			nothing(t, b)
			if !bytes.Equal(mem, b.mem) {
				t.Error("memory changed")
			}
			if s := b.qp.Query().State; s != qp.RTS {
				t.Errorf("queue pair in %v", s)
			}
			if in, out := linkPackets(b); out != 0 || in != 0 {
				t.Errorf("%d packets answered", out)
			}
			// The receive posted above is still there: it takes the next message.
			works(t, a, b)
			tearDown(t, a, b)
		})
	}
}

// raw edits the packet before it is sealed.
func raw(f func(p []byte) []byte) func(src, dst netip.AddrPort, b *side) []byte {
	return func(src, dst netip.AddrPort, s *side) []byte {
		b := f(sealed(src, dst, send(s.qp, 0)))
		seal(src, dst, b)
		return b
	}
}

func linkPackets(s *side) (in, out int) {
	e, i := s.Link.Stats()
	return i.Packets, e.Packets
}

// works sends one message to the posted receive with number 1.
func works(t *testing.T, a, b *side) {
	t.Helper()
	must(t, rig.PostSend(a.qp, rig.Send{ID: 2, Flags: 2, Op: 2, Inline: []byte("still here")}))
	got := expect(t, b, 1, 0)
	expect(t, a, 2, 0)
	if got.ByteLen != 10 || string(b.mem[:10]) != "still here" {
		t.Errorf("received %q, %+v", b.mem[:10], got)
	}
}

// IBTA 9.6: a queue pair below RTR, and one in the error state, takes nothing.
func TestReceiveInWrongStateIsRefused(t *testing.T) {
	for _, state := range []qp.State{qp.Reset, qp.Init, qp.Err} {
		a, b := pair(t, qp.RC, simnet.LinkConfig{}, adapter.Config{})
		switch state {
		case qp.Init:
			must(t, b.qp.Modify(qp.MaskState|qp.MaskPKeyIndex|qp.MaskPort|qp.MaskAccess, &qp.Attr{State: qp.Init, Port: 1}))
		case qp.Err:
			must(t, rig.Connect(a.qp, b.qp, rig.Options{}))
			must(t, rig.ToErr(b.qp))
		}
		src, dst := a.Link.Local(), b.Link.Local()
		b.Net.Inject(src, dst, 0, 64, sealed(src, dst, send(b.qp, 0)))
		b.Dev.Progress()
		if n := b.Dev.Trace.Counter(reason.PacketQPState); n != 1 {
			t.Errorf("%v: counted %d times", state, n)
		}
		if c := counters(b.Dev); sum(c[:]) != 1 {
			t.Errorf("%v: other counters moved: %v", state, c)
		}
		nothing(t, b)
		tearDown(t, a, b)
	}
}

func sum(c []uint64) (n uint64) {
	for _, v := range c {
		n += v
	}
	return n
}

// refusals is a listener for refusals.
type refusals func(e *trace.Event)

func (f refusals) Trace(e *trace.Event) {
	if e.Kind == trace.Refused {
		f(e)
	}
}

// A17.4: a connection accepts only its peer's address, from any port.
func TestReceiveFromAnotherAddressIsRefused(t *testing.T) {
	for _, kind := range []qp.Type{qp.RC, qp.UC} {
		a, b := connected(t, kind)
		b.recv(t, 1, 0, 1024)
		p := send(b.qp, 0)
		if kind == qp.UC {
			p.Opcode = ib.UCSendOnly
		}
		src, dst := netip.MustParseAddrPort("10.0.0.3:50000"), b.Link.Local()
		text := ""
		detach := b.Dev.Trace.Attach(refusals(func(e *trace.Event) { text = e.Text() }))
		b.Net.Inject(src, dst, 0, 64, sealed(src, dst, p))
		b.Dev.Progress()
		detach()
		if c := counters(b.Dev); c[reason.PacketSource] != 1 || sum(c[:]) != 1 {
			t.Errorf("%v: counters %v", kind, c)
		}
		if want := fmt.Sprintf("expected address %v, found 10.0.0.3", a.Link.Local().Addr()); !strings.HasSuffix(text, want) {
			t.Errorf("%v: %q, expected %q", kind, text, want)
		}
		nothing(t, b)
		works(t, a, b)
		tearDown(t, a, b)
	}
}

// IBTA 10.9.3: a limited member may talk to a full one.
func TestReceiveFromLimitedMemberIsAccepted(t *testing.T) {
	a, b := connected(t, qp.RC)
	b.recv(t, 1, 0, 1024)
	p := send(b.qp, 0)
	p.PKey = 0x7fff
	src, dst := a.Link.Local(), b.Link.Local()
	b.Net.Inject(src, dst, 0, 64, sealed(src, dst, p))
	if got := expect(t, b, 1, 0); got.ByteLen != 8 || string(b.mem[:8]) != "hostile!" {
		t.Errorf("received %+v", got)
	}
	tearDown(t, a, b)
}

// The receiver cannot read the IPv4 identification and must derive it from the ICRC.
func TestReceiveWithAnyIdentificationIsAccepted(t *testing.T) {
	for _, id := range []uint16{0, 1, 0x1234, 0xffff} {
		a, b := connected(t, qp.RC)
		b.recv(t, 1, 0, 1024)
		src, dst := a.Link.Local(), b.Link.Local()
		f := sealed(src, dst, send(b.qp, 0))
		h := ib.NewPseudoHeader(src, dst)
		ib.PutICRC(f[len(f)-4:], h.Sum(id, f))
		b.Net.Inject(src, dst, 0, 64, f)
		expect(t, b, 1, 0)
		tearDown(t, a, b)
	}
}

// A batch whose packets have different faults is processed packet by packet.
func TestReceiveBatchWithOneBadPacketKeepsTheOthers(t *testing.T) {
	a, b := connected(t, qp.UC)
	src, dst := a.Link.Local(), b.Link.Local()
	for i := range 3 {
		b.recv(t, uint64(i), 64*i, 64)
		p := send(b.qp, 0)
		p.Opcode = ib.UCSendOnly
		p.PSN = p.PSN.Add(i)
		f := sealed(src, dst, p)
		if i == 1 {
			f[ib.BTHLen] ^= 1
		}
		b.Net.Inject(src, dst, 0, 64, f)
	}
	b.Dev.Progress()
	if got, err := b.Wait(b.cq, 2); err != nil || got[0].WRID != 0 || got[1].WRID != 1 {
		t.Fatalf("received %+v, %v", got, err)
	}
	if c := counters(b.Dev); c[reason.PacketICRC] != 1 || c[reason.SequenceGap] != 1 || sum(c[:]) != 2 {
		t.Errorf("counters %v", c)
	}
	nothing(t, b)
	tearDown(t, a, b)
}
