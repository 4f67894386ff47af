package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// A Length is the length of a cable in centimetres.
type Length uint32

// Metre is one metre.
const Metre Length = 100

// MaxLength is the length of the longest cable.
const MaxLength = 100000 * Metre

// String is the length in metres, like "2.5m".
func (l Length) String() string {
	return strconv.FormatFloat(float64(l)/float64(Metre), 'f', -1, 64) + "m"
}

// ParseLength reads a length in metres, like "2.5m" or "2.5", to the centimetre.
func ParseLength(text string) (Length, error) {
	metres, err := strconv.ParseFloat(strings.TrimSuffix(text, "m"), 64)
	if l := metres*float64(Metre) + .5; err == nil && l >= 1 && l <= float64(MaxLength)+.5 {
		return Length(l), nil
	}
	return 0, fmt.Errorf("expected a length from %v to %v, found %q", Length(1), MaxLength, text)
}
