package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// A Width is the number of lanes of a link of InfiniBand. A link of Ethernet has the width 1: its
// speed is that of the whole link.
type Width uint8

// String is the width as ibnetdiscover prints it.
func (w Width) String() string { return strconv.Itoa(int(w)) + "x" }

// A Speed is the signalling rate of a lane of InfiniBand, or the rate of a link of Ethernet.
type Speed uint8

// The speeds of a lane (IBTA 14.2.5.6, LinkSpeedActive and its extensions).
const (
	SDR Speed = iota + 1
	DDR
	QDR
	FDR10 // of one vendor: FDR's coding at QDR's rate
	FDR
	EDR
	HDR
	NDR
	XDR
)

// The speeds of Ethernet (IEEE 802.3).
const (
	Ethernet10M Speed = iota + XDR + 1
	Ethernet100M
	Ethernet1G
	Ethernet10G
	Ethernet25G
	Ethernet40G
	Ethernet50G
	Ethernet100G
	Ethernet200G
	Ethernet400G
	Ethernet800G
)

// A link that a file says nothing of gets these, and so do generated links.
const (
	DefaultWidth Width = 4
	DefaultSpeed Speed = EDR
)

// speeds has names and payload rates of a lane in Mb/s: the signalling rate
// less the coding, 8b/10b up to QDR and 64b/66b above (IBTA volume 2, 5.1).
// Speeds of Ethernet are named by their rates.
var speeds = [...]struct {
	name string
	rate float64
}{
	SDR: {"SDR", 2000}, DDR: {"DDR", 4000}, QDR: {"QDR", 8000},
	FDR10: {"FDR10", 10312.5 * 64 / 66}, FDR: {"FDR", 14062.5 * 64 / 66},
	EDR: {"EDR", 25781.25 * 64 / 66}, HDR: {"HDR", 50000}, NDR: {"NDR", 100000}, XDR: {"XDR", 200000},
	Ethernet10M: {"10M", 10}, Ethernet100M: {"100M", 100}, Ethernet1G: {"1G", 1000}, Ethernet10G: {"10G", 10000}, Ethernet25G: {"25G", 25000}, Ethernet40G: {"40G", 40000}, Ethernet50G: {"50G", 50000},
	Ethernet100G: {"100G", 100000}, Ethernet200G: {"200G", 200000}, Ethernet400G: {"400G", 400000}, Ethernet800G: {"800G", 800000},
}

// Ethernet reports whether the speed is one of Ethernet.
func (s Speed) Ethernet() bool { return s >= Ethernet10M && int(s) < len(speeds) }

// String is the speed as ibnetdiscover prints it, or like "100G".
func (s Speed) String() string {
	if s == 0 || int(s) >= len(speeds) {
		return fmt.Sprintf("speed %d", uint8(s))
	}
	return speeds[s].name
}

// LinkRate is the number of bits that a link carries in a second, without its coding.
func LinkRate(w Width, s Speed) uint64 {
	if int(s) >= len(speeds) {
		return 0
	}
	return uint64(speeds[s].rate * 1e6 * float64(w))
}

// ParseWidth reads "4x" or "4".
func ParseWidth(text string) (Width, error) {
	switch strings.TrimSuffix(text, "x") {
	case "1":
		return 1, nil
	case "2":
		return 2, nil
	case "4":
		return 4, nil
	case "8":
		return 8, nil
	case "12":
		return 12, nil
	}
	return 0, fmt.Errorf("expected a width of 1x, 2x, 4x, 8x or 12x, found %q", text)
}

// LinkName is a width and a speed as files have it: "4xEDR", or "100G".
func LinkName(w Width, s Speed) string {
	if s.Ethernet() {
		return s.String()
	}
	return w.String() + s.String()
}

// ParseSpeed reads a name like "EDR" or "100G".
func ParseSpeed(text string) (Speed, error) {
	for s := SDR; int(s) < len(speeds); s++ {
		if strings.EqualFold(speeds[s].name, text) {
			return s, nil
		}
	}
	return 0, fmt.Errorf("expected a speed of SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR, or of 10M, 100M, 1G, 10G, 25G, 40G, 50G, 100G, 200G, 400G or 800G, found %q", text)
}

// parseLink reads width and speed as ibnetdiscover prints them, like "4xEDR". It prints a width
// that it does not know as "??", and such a speed as "???". Links of Ethernet are like "100G".
func parseLink(text string) (l lanes, err error) {
	if s, err := ParseSpeed(text); err == nil && s.Ethernet() {
		return lanes{1 << 1, 1 << s}, nil
	}
	width, speed, found := strings.Cut(text, "x")
	if strings.HasPrefix(text, "??") {
		width, speed, found = "", text[2:], true
	}
	if !found {
		return l, fmt.Errorf("expected a link like 4xEDR or 100G, found %q", text)
	}
	if width != "" {
		w, err := ParseWidth(width)
		if err != nil {
			return l, err
		}
		l.widths = 1 << w
	}
	if strings.Trim(speed, "?") != "" {
		s, err := ParseSpeed(speed)
		if err != nil {
			return l, err
		}
		if s.Ethernet() {
			return l, fmt.Errorf("expected a link of Ethernet without a width, like %v, found %q", s, text)
		}
		l.speeds = 1 << s
	}
	return l, nil
}
