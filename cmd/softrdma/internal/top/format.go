package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/mattn/go-runewidth"
)

func qpn(n uint32) string { return fmt.Sprintf("0x%06x", n) }

// count formats a number in at most five columns, with three digits: 0, 7.5, 999, 1.23k, 12.3M.
func count(v float64) string {
	if v < 0.05 {
		return "0"
	}
	for _, unit := range []string{"", "k", "M", "G", "T"} {
		if v < 999.5 || unit == "T" {
			switch {
			case v < 9.995 && unit != "":
				return fmt.Sprintf("%.2f%s", v, unit)
			case v < 9.95, v < 99.95 && unit != "":
				return fmt.Sprintf("%.1f%s", v, unit)
			}
			return fmt.Sprintf("%.0f%s", v, unit)
		}
		v /= 1000
	}
	return ""
}

// total formats a counter in at most five columns.
func total(n uint64) string {
	if n < 1000 {
		return strconv.FormatUint(n, 10)
	}
	return count(float64(n))
}

// size formats bytes in at most five columns: 512, 64Ki, 1.5Mi.
func size(n int) string {
	v := float64(n)
	for _, unit := range []string{"", "Ki", "Mi", "Gi"} {
		if v < 1000 || unit == "Gi" {
			if unit != "" && v < 9.95 {
				return strings.Replace(fmt.Sprintf("%.1f%s", v, unit), ".0", "", 1)
			}
			return fmt.Sprintf("%.0f%s", v, unit)
		}
		v /= 1024
	}
	return ""
}

// trip formats a round trip in at most six columns.
func trip(d time.Duration) string {
	if d <= 0 {
		return none
	}
	v, unit := float64(d)/1e3, "µs"
	if v >= 999.5 {
		v, unit = v/1e3, "ms"
	}
	if v >= 999.5 {
		v, unit = v/1e3, "s"
	}
	digits := 0
	if v < 99.95 {
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + unit
}

// none stands for what does not exist.
const none = "-"

// clean replaces what a terminal would not print: a program chooses its name.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// fit cuts or fills text to a number of columns.
func fit(s string, columns int, right bool) string {
	s = clean(s)
	n := runewidth.StringWidth(s)
	if n > columns {
		if columns < 2 {
			return runewidth.FillRight(runewidth.Truncate(s, columns, ""), columns)
		}
		return runewidth.FillRight(runewidth.Truncate(s, columns, "…"), columns)
	}
	if right {
		return strings.Repeat(" ", columns-n) + s
	}
	return s + strings.Repeat(" ", columns-n)
}
