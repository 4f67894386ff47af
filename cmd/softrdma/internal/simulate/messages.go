package simulate

import (
	"bytes"
	"encoding/csv"
	"strconv"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/simulate"
	"softrdma/internal/simulate/scenario"
)

// eachMessage returns the messages of all runs as comma-separated values: a line for each, in the order of
// their starts. Times are in nanoseconds. A message that was not acknowledged has no time.
func eachMessage(s *scenario.Scenario, runs [][]*simulate.Result) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.Write([]string{"variant", "seed", "traffic", "from", "to", "bytes", "start_ns", "time_ns", "ideal_ns"}); err != nil {
		return nil, err
	}
	for i, list := range runs {
		for _, r := range list {
			for k := range r.Messages {
				if err := w.Write(row(s, s.Variants[i].Name, r.Seed, &r.Messages[k])); err != nil {
					return nil, err
				}
			}
		}
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

// row returns the fields of a message.
func row(s *scenario.Scenario, variant string, seed uint64, m *simulate.Message) []string {
	took := ""
	if m.End != dcb.Never {
		took = nanoseconds(m.End - m.Start)
	}
	return []string{
		variant, strconv.FormatUint(seed, 10), s.Traffic[m.Traffic].Name, strconv.Itoa(m.From), strconv.Itoa(m.To),
		strconv.FormatInt(m.Size, 10), nanoseconds(m.Start), took, nanoseconds(m.Ideal),
	}
}

// nanoseconds returns a time with picoseconds behind the point.
func nanoseconds(t dcb.Time) string {
	return strconv.FormatFloat(float64(t)/float64(dcb.Nanosecond), 'f', 3, 64)
}
