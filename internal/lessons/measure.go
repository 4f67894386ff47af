package lessons

import (
	"fmt"
	"strings"
	"time"
)

// packets returns how many packets the ladder of a result has.
func packets(r *Result) int {
	if r.Ladder == nil {
		return 0
	}
	return r.Ladder.Packets
}

// labels returns how many packets of the ladder have a word in their label.
func labels(r *Result, word string) (n int) {
	if r.Ladder != nil {
		for _, x := range r.Ladder.Rungs {
			if strings.Contains(x.Label, word) {
				n += x.Packets
			}
		}
	}
	return n
}

func duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond))
	case d < time.Second:
		return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// size writes a number of bytes.
func size(n uint64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 10<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
