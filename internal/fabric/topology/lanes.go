package topology

import "fmt"

// lanes are the widths and speeds that an end of a link enables, as bits
// 1<<Width and 1<<Speed. No bits mean that the file says nothing.
type lanes struct {
	widths, speeds uint16
}

// exactLanes enables one width and one speed.
func exactLanes(w Width, s Speed) lanes { return lanes{1 << w, 1 << s} }

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

func speedMask(v uint64, bits []Speed) (m uint16) {
	for i, s := range bits {
		if v>>i&1 != 0 {
			m |= 1 << s
		}
	}
	return m
}

// negotiate returns the greatest width and speed that both ends enable, as the
// ports of a link do (IBTA volume 2, 5.6.4). ok is false if there is none.
func negotiate(a, b lanes) (w Width, s Speed, ok bool) {
	widths := shared(a.widths, b.widths, 1<<DefaultWidth)
	speeds := shared(a.speeds, b.speeds, 1<<DefaultSpeed)
	for i := range Width(16) {
		if widths>>i&1 != 0 {
			w = i
		}
	}
	for i := range Speed(16) {
		if speeds>>i&1 != 0 {
			s = i
		}
	}
	return w, s, widths != 0 && speeds != 0
}

// shared are the bits of both masks. An end that enables nothing agrees with everything.
func shared(a, b, otherwise uint16) uint16 {
	switch {
	case a == 0 && b == 0:
		return otherwise
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return a & b
}
