package topology

import (
	"fmt"
	"math/bits"
)

// lanes are the widths and speeds that an end of a link enables, as bits
// 1<<Width and 1<<Speed. No bits mean that the file says nothing.
type lanes struct {
	widths uint16
	speeds uint32
}

// The bits of LinkWidthEnabled, LinkSpeedEnabled and LinkSpeedExtEnabled in
// their order (IBTA 14.2.5.6), which ibsim's files use.
var (
	widthBits         = []Width{1, 4, 8, 12, 2}
	speedBits         = []Speed{SDR, DDR, QDR}
	extendedSpeedBits = []Speed{FDR, EDR, HDR, NDR}
)

// parseMask reads an attribute or option of ibsim, whose value is a mask of PortInfo.
func (p *parser) parseMask(name string, v uint64, l *lanes) error {
	limit := map[string]uint64{"width": 31, "speed": 7, "extspeed": 15}[name]
	if v > limit || v == 0 && name == "width" {
		return p.errorf(fmt.Sprintf("a mask of %s up to %d", name, limit), "%d", v)
	}
	switch name {
	case "width":
		l.widths = 0
		for i, w := range widthBits {
			if v>>i&1 != 0 {
				l.widths |= 1 << w
			}
		}
	case "speed":
		l.speeds = l.speeds&^(1<<SDR|1<<DDR|1<<QDR) | speedMask(v, speedBits)
	case "extspeed":
		l.speeds = l.speeds&(1<<SDR|1<<DDR|1<<QDR) | speedMask(v, extendedSpeedBits)
	}
	return nil
}

func speedMask(v uint64, bits []Speed) (m uint32) {
	for i, s := range bits {
		if v>>i&1 != 0 {
			m |= 1 << s
		}
	}
	return m
}

// greatest returns the width and the speed of a link, as far as the masks tell them.
func (l lanes) greatest() (Width, Speed) {
	return Width(max(0, bits.Len16(l.widths)-1)), Speed(max(0, bits.Len32(l.speeds)-1))
}

// ethernet reports whether the link is one of Ethernet.
func (l lanes) ethernet() bool { return l.speeds>>Ethernet10M != 0 }

// String is the greatest width and speed, like "4xEDR" or "100G", without those that are not known.
func (l lanes) String() (text string) {
	w, s := l.greatest()
	if w != 0 && !s.Ethernet() {
		text = w.String()
	}
	if s != 0 {
		text += s.String()
	}
	return text
}

// negotiate returns the greatest width and speed that both ends enable, as the
// ports of a link do (IBTA volume 2, 5.6.4). agree is false if the ends have none in
// common. The smaller one counts then.
func negotiate(a, b lanes) (w Width, s Speed, agree bool) {
	both := lanes{a.widths & b.widths, a.speeds & b.speeds}
	agree = true
	if both.widths == 0 {
		both.widths = smaller(a.widths, b.widths, 1<<DefaultWidth)
		agree = a.widths == 0 || b.widths == 0
	}
	if both.speeds == 0 {
		both.speeds = smaller(a.speeds, b.speeds, 1<<DefaultSpeed)
		agree = agree && (a.speeds == 0 || b.speeds == 0)
	}
	w, s = both.greatest()
	return w, s, agree
}

// smaller is the mask whose greatest bit is smaller, of two that have no bit in common. An empty mask
// agrees with the other one.
func smaller[T uint16 | uint32](a, b, otherwise T) T {
	switch {
	case a == 0 && b == 0:
		return otherwise
	case a == 0 || b != 0 && b < a:
		return b
	}
	return a
}
