package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// A Width is the number of lanes of a link.
type Width uint8

// String is the width as ibnetdiscover prints it.
func (w Width) String() string { return strconv.Itoa(int(w)) + "x" }

// A Speed is the signalling rate of a lane.
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

// A link that a file says nothing of gets these, and so do generated links.
const (
	DefaultWidth Width = 4
	DefaultSpeed Speed = EDR
)

// speeds has names and payload rates of a lane in Mb/s: the signalling rate
// less the coding, 8b/10b up to QDR and 64b/66b above (IBTA volume 2, 5.1).
var speeds = [...]struct {
	name string
	rate float64
}{
	SDR: {"SDR", 2000}, DDR: {"DDR", 4000}, QDR: {"QDR", 8000},
	FDR10: {"FDR10", 10312.5 * 64 / 66}, FDR: {"FDR", 14062.5 * 64 / 66},
	EDR: {"EDR", 25781.25 * 64 / 66}, HDR: {"HDR", 50000}, NDR: {"NDR", 100000}, XDR: {"XDR", 200000},
}

// String is the speed as ibnetdiscover prints it.
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

// ParseSpeed reads a name like "EDR".
func ParseSpeed(text string) (Speed, error) {
	for s := SDR; int(s) < len(speeds); s++ {
		if strings.EqualFold(speeds[s].name, text) {
			return s, nil
		}
	}
	return 0, fmt.Errorf("expected a speed of SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR or XDR, found %q", text)
}

// parseLink reads width and speed as ibnetdiscover prints them, like "4xEDR". It prints a width
// that it does not know as "??", and such a speed as "???".
func parseLink(text string) (l lanes, err error) {
	width, speed, found := strings.Cut(text, "x")
	if strings.HasPrefix(text, "??") {
		width, speed, found = "", text[2:], true
	}
	if !found {
		return l, fmt.Errorf("expected a link like 4xEDR, found %q", text)
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
		l.speeds = 1 << s
	}
	return l, nil
}
