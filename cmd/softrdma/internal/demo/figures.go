package demo

import "fmt"

// binaryBytes formats a number of bytes with about three digits and a unit of a power
// of 1024.
func binaryBytes(n float64) string {
	unit := 0
	for ; n >= 1000 && unit < 4; unit++ {
		n /= 1024
	}
	name := []string{"B", "KiB", "MiB", "GiB", "TiB"}[unit]
	if unit == 0 {
		return fmt.Sprintf("%.0f %s", n, name)
	}
	return threeDigits(n) + " " + name
}

// byteRate formats a rate in bytes per second, in GB/s or MB/s.
func byteRate(v float64) string {
	if v < 999.5e6 {
		return fmt.Sprintf("%.0f MB/s", v/1e6)
	}
	return threeDigits(v/1e9) + " GB/s"
}

// duration formats a time in microseconds with a suitable unit.
func duration(µs float64) string {
	for _, u := range []struct {
		µs   float64
		name string
	}{{1e6, "s"}, {1e3, "ms"}} {
		if µs >= u.µs*0.9995 {
			return threeDigits(µs/u.µs) + " " + u.name
		}
	}
	return threeDigits(µs) + " µs"
}

// threeDigits formats a number with three digits. Whole numbers have no decimals.
func threeDigits(v float64) string {
	switch {
	case v == float64(int64(v)) || v >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case v >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
