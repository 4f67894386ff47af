package dcb

import (
	"testing"

	"softrdma/internal/wire/ethernet"
)

func newPort(c PortConfig) (*Port, *Pool) {
	pool := new(Pool)
	p := NewPort(&c, pool, 1)
	p.SetLink(0, true)
	return p, pool
}

// next runs a port until a frame leaves.
func next(t *testing.T, p *Port) (Time, *Frame) {
	t.Helper()
	for range 100 {
		at := p.Deadline()
		if at == Never {
			return at, nil
		}
		p.Watch(at)
		if f := p.Next(at); f != nil {
			return at, f
		}
	}
	t.Fatal("the port has a deadline and does nothing")
	return 0, nil
}

func TestPauseIsRepeatedBeforeItEnds(t *testing.T) {
	for _, c := range []struct {
		mode   Mode
		op     uint16
		enable uint8
	}{{ByClass, ethernet.OpPFC, 1 << 3}, {WholeLink, ethernet.OpPause, 0xff}} {
		p, _ := newPort(PortConfig{Speed: 100 * Gbit, Pause: c.mode, Lossless: 0xff, Quanta: 1000})
		p.Stop(3)
		at := Time(0)
		for i := range Time(4) {
			var f *Frame
			if at, f = next(t, p); at != i*500*64*80 || f.Op != c.op || f.Enable != c.enable || f.Quanta[3] != 1000 {
				t.Errorf("%v: %+v at %d ps", c.mode, f, at)
			}
		}
		p.Go(3)
		end, f := next(t, p)
		if f.Enable != c.enable || f.Quanta[3] != 0 || end > at+Time(WireLen(MinFrame))*80 {
			t.Errorf("%v: end of the pause %+v at %d ps", c.mode, f, end)
		}
		if at, _ = next(t, p); at != Never {
			t.Errorf("%v: something is due at %d ps without a pause", c.mode, at)
		}
	}
}

// A pause that is too short for the frames of the link is longer than configured: it would end before the
// port can repeat it, behind a frame that it has just begun to send.
func TestPauseIsRepeatedBehindTheLongestFrame(t *testing.T) {
	p, pool := newPort(PortConfig{Speed: 100 * Gbit, MTU: 9216, Pause: ByClass, Lossless: 1 << 3, Quanta: 100})
	for range 20 {
		f := pool.Frame()
		f.Len = 9216
		p.Push(0, f)
	}
	p.Stop(3)
	ends := Never
	for pauses := 0; pauses < 10; {
		at, f := next(t, p)
		if f == nil {
			break
		}
		if f.Op == 0 {
			continue
		}
		if pauses++; at+Time(WireLen(MinFrame))*80 > ends {
			t.Errorf("pause %d comes at %d ps, the one before ended at %d", pauses, at, ends)
		}
		ends = at + Time(WireLen(MinFrame))*80 + (100 * Gbit).Quanta(int(f.Quanta[3]))
	}
}

// 802.3x has one pause: it begins with the first priority and ends with the last one.
func TestWholeLinkPausesOnce(t *testing.T) {
	p, _ := newPort(PortConfig{Speed: 100 * Gbit, Pause: WholeLink, Lossless: 0xff})
	for _, step := range []struct {
		do   func(uint8)
		on   uint8
		told bool
	}{{p.Stop, 3, true}, {p.Stop, 4, false}, {p.Go, 3, false}, {p.Go, 4, true}} {
		step.do(step.on)
		if told := p.Deadline() < Microsecond; told != step.told {
			t.Errorf("priority %d: the neighbor is told %v, expected %v", step.on, told, step.told)
		}
		p.Next(p.busy)
		p.busy = 0
	}
}

func TestPauseTakesEffectAfterTheResponse(t *testing.T) {
	p, pool := newPort(PortConfig{Speed: 100 * Gbit, Pause: ByClass, Lossless: 1 << 3, Response: Microsecond})
	f := pool.Frame()
	f.Op, f.Enable, f.Quanta[3] = ethernet.OpPFC, 0xff, 500
	p.Paused(0, f)
	for _, c := range []struct {
		at   Time
		want uint8
	}{{Microsecond - 1, 0}, {Microsecond, 1 << 3}, {Microsecond + 500*64*80 - 1, 1 << 3}, {Microsecond + 500*64*80, 0}} {
		if p.Next(c.at); p.Halted() != c.want {
			t.Errorf("after %d ps priorities %#x are paused, expected %#x", c.at, p.Halted(), c.want)
		}
	}
	if got := p.Counters(3).Paused; got != 500*64*80 {
		t.Errorf("paused for %d ps", got)
	}
}

func TestPortIgnoresPausesThatItIsNotSetTo(t *testing.T) {
	for _, c := range []struct {
		mode Mode
		op   uint16
		want uint8
	}{{NoPause, ethernet.OpPFC, 0}, {NoPause, ethernet.OpPause, 0}, {ByClass, ethernet.OpPause, 0}, {ByClass, ethernet.OpPFC, 1 << 3}, {WholeLink, ethernet.OpPFC, 0}, {WholeLink, ethernet.OpPause, 0xff}} {
		p, pool := newPort(PortConfig{Speed: 100 * Gbit, Pause: c.mode, Lossless: 1 << 3})
		f := pool.Frame()
		f.Op, f.Enable = c.op, 0xff
		for i := range f.Quanta {
			f.Quanta[i] = 9
		}
		if p.Paused(0, f); p.Halted() != c.want {
			t.Errorf("%v, operation %#x: %#x paused, expected %#x", c.mode, c.op, p.Halted(), c.want)
		}
	}
}

func TestHeadroomOfTheDocument(t *testing.T) {
	c := PortConfig{Speed: 100 * Gbit}
	if one, all := Headroom(&c, 256, 1518, 500*Nanosecond, 0), Headroom(&c, 256, MinFrame, 500*Nanosecond, 0); one != 15360 || all != 44800 {
		t.Errorf("%d and %d bytes, docs/ethernet.md has 15,360 and 44,800", one, all)
	}
}

// Headroom is what arrives: the bound for all lengths is that of each length or above.
func TestHeadroomCoversEachLength(t *testing.T) {
	for _, mtu := range []int{1518, 9216} {
		c := PortConfig{Speed: 100 * Gbit, MTU: mtu}
		all := Headroom(&c, 256, MinFrame, Microsecond, 0)
		byteTime := c.Speed.PerByte()
		window := Time(WireLen(mtu)+WireLen(MinFrame))*byteTime + 2*Microsecond
		for n := MinFrame; n <= mtu; n++ {
			if need := int(ceil(window, Time(WireLen(n))*byteTime)) * cellsOf(n, 256) * 256; need > all {
				t.Fatalf("frames of %d bytes need %d, computed %d", n, need, all)
			}
		}
		if one := Headroom(&c, 256, mtu, Microsecond, 0); one > all {
			t.Errorf("frames of one length need %d, all need %d", one, all)
		}
	}
}

// A queue whose pause has ended and that waits for other priorities is in no storm.
func TestWatchdogLooksAtPausesAlone(t *testing.T) {
	c := PortConfig{Speed: 100 * Gbit, Pause: ByClass, Lossless: 1 << 0, Watchdog: Watchdog{Detect: 10 * Microsecond}}
	c.Selection.Class = [8]uint8{0, 1, 1, 1, 1, 1, 1, 1} // strict: priority 1 goes first
	p, pool := newPort(c)
	push := func(priority uint8) {
		f := pool.Frame()
		f.Priority, f.Len = priority, DefaultMTU
		p.Push(0, f)
	}
	push(0)
	for range 200 { // 24 us on the link
		push(1)
	}
	pause := pool.Frame()
	pause.Op, pause.Enable, pause.Quanta[0] = ethernet.OpPFC, 1, 100
	p.Paused(0, pause)
	for at, f := next(t, p); f != nil; at, f = next(t, p) {
		if p.Storms() != 0 {
			t.Fatalf("a storm after %d ps, although the pause ended after %d", at, c.Speed.Quanta(100))
		}
	}
	if n := p.Counters(0).Sent.Frames; n != 1 {
		t.Errorf("%d frames of the priority were sent", n)
	}
}

// A port that is set to send no pauses sends none for what it has stopped before.
func TestConfiguredPortEndsItsPauses(t *testing.T) {
	c := PortConfig{Speed: 100 * Gbit, Pause: ByClass, Lossless: 1 << 3}
	p, _ := newPort(c)
	p.Stop(3)
	if _, f := next(t, p); f == nil || f.Quanta[3] == 0 {
		t.Fatalf("found %+v", f)
	}
	c.Pause = NoPause
	p.Configure(&c)
	if at, f := next(t, p); f != nil || p.Stopped() != 0 {
		t.Errorf("found %+v after %d ps, priorities %#x stopped", f, at, p.Stopped())
	}
}
