package port

import (
	"time"

	"softrdma/internal/management/hardware"
	"softrdma/internal/wire/mad/smp"
)

// framing is the number of symbols that delimit a packet on the link (IBTA volume 2).
const framing = 2

// symbolsBetweenGrants is the most symbol times between two link packets of a lane (IBTA
// 7.9.4).
const symbolsBetweenGrants = 65536

// bitsPerByte is the number of bits that carry a byte, times 100: 8b/10b up to QDR,
// 64b/66b from FDR on.
func bitsPerByte(l *hardware.Link) uint64 {
	if l.ExtSpeed != 0 {
		return 825
	}
	return 1000
}

// A pace computes when frames may leave: when earlier frames no longer occupy the link.
type pace struct {
	instant bool
	early   time.Duration
	refresh time.Duration // as configured
	every   time.Duration // between two link packets of a lane, at the speed of the link
	rate    uint64        // picoseconds for a byte
	carry   uint64        // picoseconds behind busy
	busy    time.Duration // until when packets that have left take the link
}

// set computes the times of a link.
func (p *pace) set(l *hardware.Link) {
	lane := smp.LaneRate(l.Speed, l.ExtSpeed)
	p.rate, p.every = 0, p.refresh
	if lane == 0 {
		return
	}
	symbol := bitsPerByte(l) * 1e10 / lane // in picoseconds
	if !p.instant {
		p.rate = symbol / uint64(max(1, l.Width.Lanes()))
	}
	if p.refresh == 0 {
		p.every = time.Duration(symbolsBetweenGrants * symbol / 1000 / 2)
	}
}

// start is when the next frame may leave.
func (p *pace) start() time.Duration { return p.busy - p.early }

// Duration is the time that a frame of n bytes takes on the link.
func (p *pace) Duration(n int) time.Duration {
	return time.Duration((uint64(n+framing)*p.rate + 999) / 1000)
}

// occupy lets a frame of n bytes take its time on the link. Fractions of nanoseconds add
// up in carry.
func (p *pace) occupy(now time.Duration, n int) {
	t := uint64(n+framing)*p.rate + p.carry
	p.busy, p.carry = max(now, p.busy)+time.Duration(t/1000), t%1000
}

// Negotiate returns the fastest link that both ends have enabled, and reports whether
// there is one (IBTA volume 2, link training).
func Negotiate(a, b *hardware.PortConfig, supported hardware.Link) (hardware.Link, bool) {
	width := a.Width & b.Width & supported.Width
	speed := a.Speed & b.Speed & supported.Speed
	var ext smp.ExtSpeed
	if a.ExtSpeed != smp.ExtSpeedNone && b.ExtSpeed != smp.ExtSpeedNone {
		ext = a.ExtSpeed & b.ExtSpeed & supported.ExtSpeed
	}
	l := hardware.Link{Speed: highest(speed), ExtSpeed: highest(ext)}
	if width == 0 || speed == 0 && ext == 0 {
		return hardware.Link{}, false
	}
	for _, w := range widths {
		if width&w != 0 {
			l.Width = w
			break
		}
	}
	return l, true
}

// widths in the order of their lanes; their bits are not.
var widths = [...]smp.Width{smp.Width12x, smp.Width8x, smp.Width4x, smp.Width2x, smp.Width1x}

// highest returns the highest bit of a set.
func highest[S ~uint8](set S) S {
	for bit := S(1 << 7); bit != 0; bit >>= 1 {
		if set&bit != 0 {
			return bit
		}
	}
	return 0
}
