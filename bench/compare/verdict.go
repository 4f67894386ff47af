package compare

import (
	"fmt"
	"strings"
	"time"
)

// Parts returns what the figure measures, and the peer's name, "" if the name has none.
func (f *Figure) Parts() (what, peer string) {
	i := strings.LastIndex(f.Name, ", of ")
	if i < 0 {
		return f.Name, ""
	}
	return f.Name[:i], f.Name[i+len(", of "):]
}

// equal is the distance from 1 within which two measures count as equal.
const equal = .05

// Words says how softrdma compares with the peer, "" if the figure has no peer or compares two
// metrics of one measurement. If the rounds disagree about which is better, both count as equal.
func (r *Row) Words() string {
	if r.Missing != "" {
		return "not measured"
	}
	if r.Figure.Absolute() || r.Figure.Of.Work == r.Figure.Against.Work {
		return ""
	}
	better, worse := "faster", "slower"
	switch r.Figure.Of.Metric {
	case CPU, Memory, Allocations, Idleness, Wakeups, Resident:
		better, worse = "less", "more"
	}
	good := r.Ratio
	if r.Figure.Less {
		good = 1 / good
	}
	switch {
	case r.Low <= 1 && r.High >= 1, good > 1-equal && good < 1+equal:
		return "about the same"
	case good > 1:
		return better + ", " + times(good)
	}
	return worse + ", " + times(1/good)
}

// times is a factor of at least 1, with two digits as far as they are behind the point.
func times(factor float64) string {
	if factor >= 10 {
		return fmt.Sprintf("%.0f ×", factor)
	}
	return fmt.Sprintf("%.2g ×", factor)
}

// An Origin says where and how measurements were made.
type Origin struct {
	Host    string
	System  string // operating system, architecture, processors
	Date    time.Time
	Version string // of softrdma
	Command string
}

// String returns the origin on one line.
func (o *Origin) String() string {
	return fmt.Sprintf("%s (%s), %s, softrdma %s: %s", o.Host, o.System, o.Date.Format("2006-01-02 15:04 MST"), o.Version, o.Command)
}
