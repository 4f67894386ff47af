package congestion

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// A driver gives a control what the bytes of a fuzzer say. It keeps to what a connection makes sure of, whatever the peer
// and the path do: time does not go back, round trips are not longer than the connection is old, and answers are of
// something that was sent.
type driver struct {
	b      []byte
	kind   Kind
	limits Limits
	ctl    Control
	now    time.Duration
	rtt    RTT
	flight int64 // as the connection counts it
	gone   int64 // given up as lost: may be acknowledged after all

	carried uint64 // by the switch that gives telemetry
}

// byte returns the next byte of the script, 0 behind its end.
func (d *driver) byte() byte {
	if len(d.b) == 0 {
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

// size returns a number below 2^31, small ones as often as large ones: the bits of a byte are 3 of it and its exponent.
func (d *driver) size() int64 {
	v := d.byte()
	if v == 0 {
		return 0
	}
	return (8 + int64(v&7)) << (v >> 3) >> 3 >> 1
}

// drive makes the control that a script begins with.
func drive(script []byte) *driver {
	d := &driver{b: script}
	d.kind = Kind(d.byte() % byte(kinds))
	form := d.byte()
	d.limits = Limits{Window: testLimit, Packet: testPacket}
	if form&1 != 0 {
		d.limits.Long = 1 << 30
	}
	switch form >> 1 & 3 {
	case 1:
		d.limits.Window = testPacket // one packet
	case 2:
		d.limits.Window, d.limits.Packet = 1<<30, 256+64
	}
	switch form >> 3 & 3 {
	case 1:
		paper := PaperTuning()
		d.limits.Tuning = &paper
	case 2:
		d.limits.Tuning = &Tuning{
			First: int(d.size()), Quantum: time.Duration(d.size()), Trip: time.Duration(d.size()),
			Raise: time.Duration(d.size()), Bytes: int(d.size()), Step: float64(d.size()), Decrease: time.Duration(d.size()),
		}
	}
	if form>>5&1 != 0 {
		d.ctl = NewFetch(d.kind, d.limits)
	} else {
		d.ctl = New(d.kind, d.limits)
	}
	return d
}

// leaves removes n bytes from what is in flight, or all of it.
func (d *driver) leaves(n int64) int {
	n = min(n, d.flight)
	d.flight -= n
	return int(n)
}

// sent sends n bytes.
func (d *driver) sent(n int64) {
	d.flight += n
	d.ctl.Sent(d.now, int(n), d.flight)
}

// acked has n bytes arrive, after a round trip that is 0 if it is unknown.
func (d *driver) acked(n int, took time.Duration) {
	if took = min(took, d.now); took > 0 {
		d.rtt.Sample(d.now, took)
	}
	if n > 0 || took > 0 {
		d.ctl.Acked(d.now, n, took, &d.rtt)
	}
}

// step executes the next step of the script.
func (d *driver) step() {
	op := d.byte()
	if op < 0x80 {
		d.now += time.Duration(d.size())
		d.one(op % 10)
		return
	}
	took := 300 * time.Microsecond << (op >> 4 & 7)
	for range op&3 + 1 { // round trips of a peer that answers, on a path that may lose packets or have a queue
		lost := int64(0)
		if op&4 != 0 {
			lost = d.flight/4 + int64(16*d.limits.Packet)
		}
		d.trip(took*time.Duration(1+2*(op>>3&1)), lost)
	}
}

func (d *driver) one(op byte) {
	switch op {
	case 0:
		d.sent(min(d.size(), 1<<17)) // what leaves at once
	case 1:
		if d.flight == 0 || d.flight < int64(d.ctl.Window()) && d.ctl.Ready(d.now) <= d.now {
			d.sent(int64(d.limits.Packet))
		}
	case 2:
		d.acked(d.leaves(d.size()), time.Duration(d.size()))
	case 3:
		d.acked(d.leaves(d.size()), 0)
	case 4:
		d.acked(0, time.Duration(d.size()))
	case 5: // what was given up arrives
		n := min(d.size(), d.gone)
		d.gone -= n
		d.acked(int(n), time.Duration(d.size()))
	case 6:
		n := d.leaves(d.size())
		d.gone += int64(n)
		d.ctl.Lost(d.now, n, &d.rtt)
	case 7:
		d.ctl.Notified(d.now, &d.rtt)
	case 8:
		d.ctl.Timeout(d.now)
	case 9:
		d.telemetry()
	}
}

// telemetry gives the control what a peer may write into telemetry: any numbers.
func (d *driver) telemetry() {
	c, ok := d.ctl.(Informed)
	if !ok {
		return
	}
	var hops [MaxHops]Hop
	n := d.byte() % (MaxHops + 1)
	for i := range n {
		var b [8]byte
		d.b = d.b[copy(b[:], d.b):]
		hops[i] = Hop{At: time.Duration(d.size()), Sent: uint64(d.size()), Queue: int(d.size()), Rate: float64(d.size()) * 1e6 / 8}
		if b[0] > 0xf0 {
			hops[i].At, hops[i].Sent = time.Duration(binary.LittleEndian.Uint64(b[:])), binary.LittleEndian.Uint64(b[:])
		}
	}
	c.Telemetry(d.now, hops[:n], &d.rtt)
}

// trip is a round trip in which a flow sends what it may, of which the path loses a part and the peer acknowledges the rest.
// It returns how many bytes were sent.
func (d *driver) trip(took time.Duration, lost int64) (all int64) {
	end := d.now + took
	for n := int64(d.limits.Packet); all < 64*n; all += n {
		if d.flight > 0 && d.flight+n > int64(d.ctl.Window()) {
			break
		}
		if d.ctl.Paces() {
			if at := d.ctl.Ready(d.now); at > end {
				break
			} else if at > d.now {
				d.now = at
			}
		}
		d.sent(n)
	}
	d.now = max(d.now, end)
	if lost > 0 {
		n := d.leaves(lost)
		d.gone += int64(n)
		d.ctl.Lost(d.now, n, &d.rtt)
	}
	if c, ok := d.ctl.(Informed); ok {
		d.carried += uint64(all)
		c.Telemetry(d.now, []Hop{{At: d.now, Sent: d.carried, Queue: int(d.flight), Rate: 125e6}}, &d.rtt)
	}
	for part := max(d.flight/4, int64(d.limits.Packet)); d.flight > 0; {
		d.acked(d.leaves(part), took)
	}
	return all
}

// check fails the test if the control has left its bounds.
func (d *driver) check(t *testing.T, step int) {
	t.Helper()
	if w, most := d.ctl.Window(), max(d.limits.Window, d.limits.Long); w < min(d.limits.Packet, d.limits.Window) || w > most {
		t.Fatalf("%v, step %d: a window of %d, expected one packet, %d, to %d", d.kind, step, w, d.limits.Packet, most)
	}
	rate := d.ctl.Rate()
	if math.IsNaN(rate) || math.IsInf(rate, 0) || rate < 0 || rate > 0 && rate < d.leastRate() {
		t.Fatalf("%v, step %d: a rate of %v", d.kind, step, rate)
	}
	if at := d.ctl.Ready(d.now); at > d.now && (rate == 0 || !d.ctl.Paces()) {
		t.Fatalf("%v, step %d: waits for %v without a rate", d.kind, step, at-d.now)
	}
}

// leastRate is what a control that paces sends at least, in bytes per second.
func (d *driver) leastRate() float64 {
	if d.kind == Path || d.kind == Default {
		return float64(d.limits.Packet)
	}
	return slowest
}

// progress checks that the flow continues when the peer and the path are as they should be: what was sent is answered in
// the end, and a packet leaves in the time that packets of the rate take.
func (d *driver) progress(t *testing.T) {
	t.Helper()
	const trip = 10 * time.Millisecond
	d.acked(d.leaves(d.flight), 0)
	began, all := d.now, int64(0)
	for i := range 100 {
		if at := d.ctl.Ready(d.now); at > d.now && d.ctl.Paces() {
			d.now = at
		}
		n := d.trip(trip, 0)
		d.check(t, i)
		if all += n; n == 0 {
			t.Fatalf("%v: nothing left in a round trip, at a rate of %v and with a window of %d", d.kind, d.ctl.Rate(), d.ctl.Window())
		}
	}
	if took := d.now - began; took > progressTime {
		t.Fatalf("%v: %d bytes in 100 round trips took %v, with a rate of %v and a window of %d then", d.kind, all, took, d.ctl.Rate(), d.ctl.Window())
	}
}

// progressTime is how long a flow may take for 100 round trips of 10 ms behind the worst that a script can do.
const progressTime = 10 * time.Minute

// FuzzControls gives the controls any sequence of calls. Their windows and rates stay within bounds, they do not panic, and
// they continue afterwards.
func FuzzControls(f *testing.F) {
	for k := range kinds {
		for _, form := range []byte{0, 1, 0x08, 0x21, 0x02, 0x05} {
			head := []byte{byte(k), form}
			f.Add(append(head, 0x80, 0x9f, 0xff, 0x06, 0x80, 0x90, 0x90, 0x80, 0x80, 0x9f))           // losses between round trips
			f.Add(append(head, 0x9f, 0x08, 0xc0, 0x08, 0xd0, 0x08, 0xd8, 0x08, 0xe0, 0x80))           // timeouts
			f.Add(append(head, 0x90, 0x07, 0x60, 0x07, 0x80, 0x07, 0x90, 0x07, 0xa0, 0x90, 0x07, 60)) // notifications
			f.Add(append(head, 0x81, 0x00, 0x00, 0xff, 0x02, 0xf8, 0xff, 0x01, 0x04, 0x00, 0xff))     // the shortest and the longest round trip
			f.Add(append(head, 0x81, 0x09, 0x60, 2, 0xff, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0xff, 9, 9, 9, 9, 9, 9, 0xff, 0, 0, 0, 0, 0x09, 0x60, 2, 0, 0, 0, 0))
		}
	}
	f.Add([]byte{byte(DCQCN), 0x45, 0x39}) // a notification before anything was sent
	random := rand.New(rand.NewPCG(5, 6))
	for k := range kinds {
		for range 20 {
			script := []byte{byte(k), byte(random.Uint32())}
			for range 60 + random.IntN(200) {
				script = append(script, byte(random.Uint32()))
			}
			f.Add(script)
		}
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 1000 {
			return
		}
		d := drive(script)
		d.check(t, 0)
		for i := 1; len(d.b) > 0; i++ {
			d.step()
			d.check(t, i)
		}
		d.progress(t)
	})
}

// TestPathRecoversFromOddAnswers checks that whatever a path's control was told, it fills an ordinary path soon afterwards.
func TestPathRecoversFromOddAnswers(t *testing.T) {
	const trip = 20 * time.Millisecond
	limits := Limits{Window: testLimit, Long: 4 << 20, Packet: testPacket}
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 7))
		b := make([]byte, 4000)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		for _, k := range []Kind{Default, Path} {
			line := newBottleneck(100*mbit, trip, 256<<10, 0)
			d := driver{b: b, kind: k, limits: limits, ctl: New(k, limits)}
			for len(d.b) > 0 {
				d.step()
			}
			f := line.add(d.ctl)
			line.now, f.rtt = d.now, d.rtt
			used := line.between(line.now+5*time.Second, line.now+7*time.Second)[0] / line.rate
			if used < .8 {
				t.Errorf("%v, seed %d: %.2f of the line after odd answers", k, seed, used)
			}
		}
	}
}
