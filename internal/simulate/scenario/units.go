package scenario

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"softrdma/internal/fabric/dcb"
)

// A Duration is a time with its unit: 55us, 2ms.
type Duration time.Duration

// MaxDuration bounds durations, so that picoseconds do not overflow.
const MaxDuration = Duration(time.Hour)

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v < 0 || Duration(v) > MaxDuration {
		return errors.New("expected a time with its unit from 0 to 1h, such as 500ns, 55us or 10ms")
	}
	*d = Duration(v)
	return nil
}

// MarshalText returns the form that UnmarshalText reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Time returns the duration as the network's time.
func (d Duration) Time() dcb.Time { return dcb.FromDuration(time.Duration(d)) }

// A Rate is a speed in bits per second: 100Gbit.
type Rate dcb.Speed

var rateUnits = map[string]float64{"Mbit": 1e6, "Gbit": 1e9, "Tbit": 1e12}

// UnmarshalText reads a rate.
func (r *Rate) UnmarshalText(b []byte) error {
	v, ok := number(string(b), rateUnits)
	if !ok || v < 1e6 || v > 1e12 {
		return errors.New("expected a rate with its unit from 1Mbit to 1Tbit, such as 100Gbit")
	}
	*r = Rate(v)
	return nil
}

// MarshalText returns the form that UnmarshalText reads.
func (r Rate) MarshalText() ([]byte, error) {
	return []byte(strconv.FormatFloat(float64(r)/1e9, 'g', -1, 64) + "Gbit"), nil
}

// A Size is a number of bytes: 1000, 64KiB, 2MB.
type Size int64

var sizeUnits = map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 1e3, "MB": 1e6, "GB": 1e9}

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(b []byte) error {
	v, ok := number(string(b), sizeUnits)
	if !ok || v < 0 || v > 1<<40 || v != math.Trunc(v) {
		return errors.New("expected a number of bytes, such as 1500, 64KiB or 2MB")
	}
	*s = Size(v)
	return nil
}

// number reads a number with one of some units behind it.
func number(text string, units map[string]float64) (v float64, ok bool) {
	i := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if i < 0 {
		i = len(text)
	}
	v, err := strconv.ParseFloat(text[:i], 64)
	unit, known := units[strings.TrimSpace(text[i:])]
	return v * unit, err == nil && known
}
