package stream

import (
	"encoding/binary"
	"syscall"
	"time"

	"softrdma/faults"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	wire "softrdma/internal/wire/iwarp"
)

// maxLate bounds the bytes that wait in one direction of a stream to which rules of faults apply. Then
// the stream waits, as TCP does behind a full window.
const maxLate = 256 << 10

// A faulty is a connection to whose FPDUs rules of faults apply. It passes whole FPDUs in their order, so
// one that is late delays those behind it. Its stream sets now before each call.
type faulty struct {
	link.Stream
	rules   *faults.Injector
	host    Host
	qpn     func() uint32
	now     time.Duration
	out, in half
	chunk   []byte // what was read last

	err   error // of reading the connection, behind the bytes of in
	ended error // a rule has ended the stream
	shut  bool  // the write side is shut behind the bytes of out
}

// A half is one direction of a faulty connection.
type half struct {
	received bool
	started  bool // the start-up frame has passed
	markers  bool // the sender inserts them
	crc      bool
	pos      int // of the next FPDU in the stream, modulo the marker spacing

	skip  int    // bytes that come before the next FPDU
	begun []byte // of an FPDU that is not complete
	late  []unit // complete, in order
	bytes int    // of late
	last  time.Duration
	free  map[*faults.Rule]time.Duration // when a limited rate is next free
	woken bool                           // the stream has been told that the first is due
	plain []byte                         // an FPDU without markers
}

// A unit is what passes at one time.
type unit struct {
	b   []byte
	due time.Duration
	end bool // of the stream, instead of the bytes
}

// Write implements link.Stream: it takes bytes as long as there is room for them.
func (f *faulty) Write(pieces [][]byte) (n int, err error) {
	if f.ended != nil {
		return 0, f.ended
	}
	if f.out.bytes+len(f.out.begun) >= maxLate {
		return 0, link.ErrWouldBlock
	}
	for _, p := range pieces {
		f.take(&f.out, p)
		n += len(p)
	}
	return n, f.flush()
}

// Held implements link.Stream.
func (f *faulty) Held() int { return f.out.bytes + len(f.out.begun) + f.Stream.Held() }

// flush sends what is due. A connection that takes no more is no error: its stream calls again.
func (f *faulty) flush() error {
	h := &f.out
	h.woken = false
	for len(h.late) > 0 && h.late[0].due <= f.now && f.ended == nil {
		u := &h.late[0]
		if u.end {
			f.ended = syscall.ECONNRESET
			break
		}
		n, err := f.Stream.Write([][]byte{u.b})
		u.b = u.b[n:]
		if h.bytes -= n; len(u.b) == 0 {
			h.late = h.late[1:]
		}
		if err == link.ErrWouldBlock || err == nil && n == 0 {
			h.woken = true // the connection tells
			return nil
		}
		if err != nil {
			return err
		}
	}
	if f.shut && len(h.late) == 0 && f.ended == nil {
		f.shut = false
		return f.Stream.ShutWrite()
	}
	return f.ended
}

// ShutWrite implements link.Stream, behind what waits.
func (f *faulty) ShutWrite() error {
	f.out.rest()
	f.shut = true
	return f.flush()
}

// Close implements link.Stream. What waits leaves now; a stream that a rule has ended is reset.
func (f *faulty) Close() error {
	if f.ended != nil {
		return f.Stream.Reset()
	}
	f.out.rest()
	f.now = machine.Never
	_ = f.flush()
	if f.ended != nil {
		return f.Stream.Reset()
	}
	return f.Stream.Close()
}

// Read implements link.Stream.
func (f *faulty) Read(pieces [][]byte) (n int, err error) {
	h := &f.in
	h.woken = false
	if f.ended != nil {
		return 0, f.ended
	}
	f.fill()
	for _, p := range pieces {
		for len(p) > 0 && len(h.late) > 0 && h.late[0].due <= f.now && !h.late[0].end {
			u := &h.late[0]
			k := copy(p, u.b)
			p, u.b = p[k:], u.b[k:]
			n, h.bytes = n+k, h.bytes-k
			if len(u.b) == 0 {
				h.late = h.late[1:]
			}
		}
	}
	switch {
	case n > 0:
		return n, nil
	case len(h.late) > 0 && h.late[0].due > f.now:
		return 0, link.ErrWouldBlock
	case len(h.late) > 0:
		f.ended = syscall.ECONNRESET
		return 0, f.ended
	case f.err != nil:
		return 0, f.err
	}
	return 0, link.ErrWouldBlock
}

// fill reads the connection until it has no more, or enough waits.
func (f *faulty) fill() {
	h := &f.in
	if f.chunk == nil {
		f.chunk = make([]byte, scratchLen)
	}
	for f.err == nil && h.bytes < maxLate {
		n, err := f.Stream.Read([][]byte{f.chunk})
		f.take(h, f.chunk[:n])
		if err == link.ErrWouldBlock || err == nil && n == 0 {
			return
		}
		if f.err = err; err != nil {
			h.rest()
		}
	}
}

// take continues a direction with its next bytes.
func (f *faulty) take(h *half, b []byte) {
	if n := min(h.skip, len(b)); n > 0 {
		h.add(unit{b: append([]byte(nil), b[:n]...), due: f.now})
		h.skip, h.pos, b = h.skip-n, (h.pos+n)%wire.MarkerSpacing, b[n:]
	}
	h.begun = append(h.begun, b...)
	for {
		n := h.next()
		if n == 0 || len(h.begun) < n {
			return
		}
		u := append([]byte(nil), h.begun[:n]...)
		h.begun = append(h.begun[:0], h.begun[n:]...)
		if h.started {
			f.decide(h, u)
			h.pos = (h.pos + n) % wire.MarkerSpacing
		} else {
			f.start(h, u)
			h.add(unit{b: u})
		}
	}
}

// start notes what a start-up frame says: its sender wants markers from the other side, and CRCs of both.
func (f *faulty) start(h *half, b []byte) {
	var frame wire.Frame
	frame.Parse(b)
	h.started = true
	other := &f.out
	if h == other {
		other = &f.in
	}
	other.markers = frame.Flags&wire.FlagMarkers != 0
	crc := f.out.crc || f.in.crc || frame.Flags&wire.FlagCRC != 0
	f.out.crc, f.in.crc = crc, crc
}

// next returns the length of what begins with the bytes that have come, 0 if they do not tell yet.
func (h *half) next() int {
	b := h.begun
	if !h.started {
		if len(b) < wire.FrameLen {
			return 0
		}
		var frame wire.Frame
		if frame.Parse(b) != wire.FrameOK {
			return len(b) // of another protocol
		}
		return wire.FrameLen + int(frame.Private)
	}
	lead := 0
	if h.markers && h.pos == 0 {
		lead = wire.MarkerLen
	}
	if len(b) < lead+wire.LengthLen {
		return 0
	}
	return h.marked(wire.FPDULen(int(binary.BigEndian.Uint16(b[lead:]))))
}

// marked returns the length of the next n bytes with their markers.
func (h *half) marked(n int) int {
	if !h.markers || n == 0 {
		return n
	}
	for i, left := 0, n; ; i++ { // RFC 5044 4.3: a marker at each multiple of the spacing
		if (h.pos+i)%wire.MarkerSpacing == 0 {
			i += wire.MarkerLen
		}
		if left--; left == 0 {
			return i + 1
		}
	}
}

// strip returns an FPDU without its markers, and put writes it back.
func (h *half) strip(b []byte) []byte {
	h.plain = h.plain[:0]
	h.walk(b, func(x *byte) { h.plain = append(h.plain, *x) })
	return h.plain
}

func (h *half) put(b, plain []byte) {
	h.walk(b, func(x *byte) { *x, plain = plain[0], plain[1:] })
}

// walk visits the bytes of an FPDU that are not markers.
func (h *half) walk(b []byte, visit func(*byte)) {
	for i := 0; i < len(b); i++ {
		if h.markers && (h.pos+i)%wire.MarkerSpacing == 0 {
			i += wire.MarkerLen
		}
		visit(&b[i])
	}
}

// decide asks the rules about an FPDU, and lets it wait.
func (f *faulty) decide(h *half, b []byte) {
	plain := h.strip(b)
	facts := faults.PacketFacts{Received: h.received, Peer: f.Stream.Remote().Addr(), QPN: f.qpn()}
	facts.ReadFPDU(plain)
	v := f.rules.Packet(f.now, &facts)
	if v.Hits > 0 {
		f.host.Injected(facts.QPN, &v)
	}
	if v.Corrupt != nil {
		h.corrupt(b, plain, &v)
	}
	u := unit{b: b, due: f.now, end: v.End}
	if x := v.Rate; x != nil {
		if h.free == nil {
			h.free = make(map[*faults.Rule]time.Duration)
		}
		u.due = max(f.now, h.free[x])
		h.free[x] = u.due + time.Duration(float64(len(b))*float64(time.Second)/float64(x.Rate))
	}
	u.due += v.Delay + max(v.Stall, v.Slow)
	h.add(u)
}

// add lets a unit wait behind those before it.
func (h *half) add(u unit) {
	u.due = max(u.due, h.last)
	h.last, h.bytes = u.due, h.bytes+len(u.b)
	h.late = append(h.late, u)
}

// rest lets bytes pass that are no whole FPDU: no more follow.
func (h *half) rest() {
	if len(h.begun) > 0 {
		h.add(unit{b: h.begun})
		h.begun = nil
	}
}

// corrupt changes an FPDU as its rule wants. With a wrong CRC, the receiver ends the stream (RFC 5044 8).
func (h *half) corrupt(b, plain []byte, v *faults.Verdict) {
	end := len(plain) - wire.CRCLen
	body := faults.PartOfFPDU(plain, v.Corrupt.Part)
	v.Change(body)
	if len(body) == 0 && v.Corrupt.ICRC != "right" {
		plain[end] ^= 0xff
	}
	h.put(b, plain)
	if v.Corrupt.ICRC == "right" && h.crc {
		wire.PutCRC(b[len(b)-wire.CRCLen:], wire.UpdateCRC(0, b[:len(b)-wire.CRCLen]))
	}
}

// due returns when the stream is to call again.
func (f *faulty) due() time.Duration {
	if f == nil {
		return machine.Never
	}
	return min(f.out.due(), f.in.due())
}

func (h *half) due() time.Duration {
	if h.woken || len(h.late) == 0 {
		return machine.Never
	}
	return h.late[0].due
}
