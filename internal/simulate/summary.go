package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"softrdma/internal/congestion"
	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/reason"
	"softrdma/internal/simulate/scenario"
)

// A Summary is what a scenario has shown, without what depends on the machine.
type Summary struct {
	Title    string           `json:"title"`
	Topology string           `json:"topology"`
	Hosts    int              `json:"hosts"`
	Seed     uint64           `json:"seed"` // the first one
	Seeds    int              `json:"seeds"`
	Variants []VariantSummary `json:"variants"`
	Papers   []scenario.Paper `json:"papers,omitempty"`
}

// A VariantSummary is what a variant has shown, with all seeds together. Numbers of events are those
// of all runs; peaks are the greatest, and rates the mean of the runs.
type VariantSummary struct {
	Name     string      `json:"name"`
	Messages Count       `json:"messages"`
	Slowdown []Slowdown  `json:"slowdown,omitempty"`
	Streams  []Rate      `json:"streams,omitempty"`
	Fairness *float64    `json:"fairness,omitempty"` // Jain's index of the streams' rates
	Goodput  float64     `json:"goodput_gbps"`       // of all hosts together
	Repeated float64     `json:"repeated"`           // share of the payload that was sent again
	Queue    Queue       `json:"queue"`
	Pauses   Pauses      `json:"pauses"`
	Storms   uint64      `json:"storms,omitempty"`   // of pauses, that watchdogs have found
	Deadlock int         `json:"deadlock,omitempty"` // runs that ended in a deadlock
	Marked   uint64      `json:"marked"`
	Drops    uint64      `json:"drops"`
	DropsBy  []Reason    `json:"drops_by,omitempty"`
	Reasons  []Reason    `json:"reasons,omitempty"` // that queue pairs have named
	Packets  uint64      `json:"packets"`           // that arrived at hosts
	Events   uint64      `json:"events"`            // of the simulation
	Network  float64     `json:"network_us"`        // simulated time of each run
	Warnings []string    `json:"warnings,omitempty"`
	Curves   []Slowdowns `json:"-"`

	// Samples of the first seed over time.
	Queues      []Point  `json:"-"` // KiB of the longest queue
	PausedPorts []Point  `json:"-"` // number of them
	Rates       []Series `json:"-"` // Gbit/s of the streams
	Fair        []Point  `json:"-"` // Jain's index of the rates of several streams
}

// A Count is a number of messages.
type Count struct {
	Started  int `json:"started"`
	Finished int `json:"finished"`
	Failed   int `json:"failed"` // connections
}

// A Slowdown is how many times as long as in an empty network messages take.
type Slowdown struct {
	Number   int     `json:"-"` // of the traffic
	Traffic  string  `json:"traffic"`
	UpTo     int64   `json:"up_to"` // bytes of a message, and more than the row before
	Messages int     `json:"messages"`
	P50      float64 `json:"p50"`
	P95      float64 `json:"p95"`
	P99      float64 `json:"p99"`
	Max      float64 `json:"max"`
	Mean     float64 `json:"mean_us"` // time of a message
}

// A Rate is the rate of a stream.
type Rate struct {
	Traffic string  `json:"traffic"`
	From    int     `json:"from"`
	To      int     `json:"to"`
	Rate    float64 `json:"gbps"`
	Low     float64 `json:"gbps_min"` // of the seeds
	High    float64 `json:"gbps_max"`
}

// A Queue is how long the queues of switches were.
type Queue struct {
	Peak int `json:"peak_bytes"`
	P50  int `json:"p50_bytes"` // of the longest queue, sampled
	P99  int `json:"p99_bytes"`
	Used int `json:"buffer_peak_bytes"` // of the shared buffer of a switch
}

// Pauses are how often and for how long ports were paused.
type Pauses struct {
	Frames uint64  `json:"frames"`
	Time   float64 `json:"time_us"` // of all ports together
}

// A Reason is how often something happened, by the name that softrdma explain knows.
type Reason struct {
	Name  string `json:"reason"`
	Count uint64 `json:"count"`
}

// A Series is samples over time.
type Series struct {
	Name   string
	Points []Point
}

// A Point is a value at a time in microseconds, or a share at a slowdown.
type Point struct{ X, Y float64 }

// Slowdowns are all slowdowns of a traffic, in order.
type Slowdowns struct {
	Traffic string
	Values  []float64
}

// Summarize summarizes the runs of RunAll.
func Summarize(s *scenario.Scenario, first uint64, runs [][]*Result) *Summary {
	x := &Summary{Title: s.Title, Topology: s.Topology, Seed: first, Papers: s.Papers}
	if f, err := s.Fabric(); err == nil {
		x.Hosts = scenario.Hosts(f)
	}
	for i, list := range runs {
		x.Seeds = len(list)
		x.Variants = append(x.Variants, summarize(s, &s.Variants[i], list))
	}
	return x
}

func summarize(s *scenario.Scenario, of *scenario.Variant, runs []*Result) VariantSummary {
	v := VariantSummary{Name: of.Name, Warnings: warnings(of, runs[0])}
	drops, reasons := map[reason.Reason]uint64{}, map[reason.Reason]uint64{}
	var queues []int
	var sent, repeated uint64
	for _, r := range runs {
		v.Messages.Failed += r.Failed
		v.Goodput += gigabits(r.Goodput) / float64(len(runs))
		sent, repeated = sent+r.Sent, repeated+r.Repeated
		v.Queue.Peak, v.Queue.Used = max(v.Queue.Peak, r.QueuePeak), max(v.Queue.Used, r.Used)
		v.Pauses.Frames += r.Pauses
		v.Pauses.Time += micros(r.Paused)
		v.Marked += r.Marked
		v.Storms += r.Storms
		if r.Deadlock > 0 {
			v.Deadlock++
		}
		v.Packets += r.Packets
		v.Events += r.Events
		v.Network += micros(r.End) / float64(len(runs))
		for k, n := range r.Drops {
			drops[k] += n
			v.Drops += n
		}
		for k, n := range r.Reasons {
			reasons[k] += n
		}
		for _, q := range r.Samples {
			if q.At > s.Warm.Time() {
				queues = append(queues, q.Queue)
			}
		}
	}
	if sent > 0 {
		v.Repeated = float64(repeated) / float64(sent)
	}
	slices.Sort(queues)
	v.Queue.P50, v.Queue.P99 = percentile(queues, 50), percentile(queues, 99)
	v.DropsBy, v.Reasons = byName(drops), byName(reasons)
	v.slowdowns(s, runs)
	v.streams(s, runs)
	v.series(s, runs[0])
	return v
}

// warnings says what of a variant's settings is likely not meant.
func warnings(v *scenario.Variant, r *Result) (list []string) {
	size := cmp.Or(int(v.Switch.Buffer), bridge.DefaultBuffer)
	if v.Switch.PFC && r.Shared < size/4 {
		list = append(list, fmt.Sprintf("headroom takes %d of the %d bytes of a switch's buffer, so ports pause early or drop: expected a larger switch.buffer, "+
			"or fewer priorities with PFC", size-r.Shared, size))
	}
	return list
}

func gigabits(bytes float64) float64 { return bytes * 8 / 1e9 }

func micros(t dcb.Time) float64 { return float64(t) / float64(dcb.Microsecond) }

func byName(counts map[reason.Reason]uint64) (list []Reason) {
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		list = append(list, Reason{k.String(), counts[k]})
	}
	return list
}

// percentile returns the least value that p percent of a sorted list are not above.
func percentile[T int | float64](sorted []T, p float64) T {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(i-1, 0), len(sorted)-1)]
}

// sizes are the limits of the rows of slowdowns in bytes.
var sizes = []int64{1e3, 1e4, 1e5, 1e6, 1e7, math.MaxInt64}

// slowdowns adds the rows of slowdowns.
func (v *VariantSummary) slowdowns(s *scenario.Scenario, runs []*Result) {
	type row struct {
		values []float64
		time   float64
		up     int64
	}
	for t := range s.Traffic {
		rows := make([]row, len(sizes))
		var all []float64
		for _, r := range runs {
			for i := range r.Messages {
				m := &r.Messages[i]
				if m.Traffic != t {
					continue
				}
				v.Messages.Started++
				if m.End == dcb.Never {
					continue
				}
				v.Messages.Finished++
				k, _ := slices.BinarySearch(sizes, m.Size)
				x := &rows[k]
				x.values, x.time, x.up = append(x.values, m.Slowdown()), x.time+micros(m.End-m.Start), max(x.up, m.Size)
				all = append(all, m.Slowdown())
			}
		}
		for i := range rows {
			x := &rows[i]
			if len(x.values) == 0 {
				continue
			}
			slices.Sort(x.values)
			n := len(x.values)
			v.Slowdown = append(v.Slowdown, Slowdown{
				Number: t, Traffic: s.Traffic[t].Name, UpTo: x.up, Messages: n, P50: percentile(x.values, 50), P95: percentile(x.values, 95),
				P99: percentile(x.values, 99), Max: x.values[n-1], Mean: x.time / float64(n),
			})
		}
		if len(all) > 0 {
			slices.Sort(all)
			v.Curves = append(v.Curves, Slowdowns{s.Traffic[t].Name, all})
		}
	}
}

// streams adds the rates of streams.
func (v *VariantSummary) streams(s *scenario.Scenario, runs []*Result) {
	n := len(runs[0].Streams)
	if n == 0 {
		return
	}
	fair := 0.0
	for i := range n {
		x := runs[0].Streams[i]
		g := Rate{Traffic: s.Traffic[x.Traffic].Name, From: x.From, To: x.To, Low: math.Inf(1)}
		for _, r := range runs {
			rate := gigabits(r.Streams[i].Rate)
			g.Rate += rate / float64(len(runs))
			g.Low, g.High = min(g.Low, rate), max(g.High, rate)
		}
		v.Streams = append(v.Streams, g)
	}
	for _, r := range runs {
		fair += r.Fairness() / float64(len(runs))
	}
	if n > 1 {
		v.Fairness = &fair
	}
}

// series adds what the first run has sampled.
func (v *VariantSummary) series(s *scenario.Scenario, r *Result) {
	for _, x := range r.Streams {
		v.Rates = append(v.Rates, Series{Name: streamName(s.Traffic[x.Traffic].Name, x.From, x.To)})
	}
	for _, x := range r.Samples {
		at := micros(x.At)
		v.Queues = append(v.Queues, Point{at, float64(x.Queue) / 1024})
		v.PausedPorts = append(v.PausedPorts, Point{at, float64(x.Paused)})
		for i, rate := range x.Rates {
			v.Rates[i].Points = append(v.Rates[i].Points, Point{at, gigabits(rate)})
		}
		if len(x.Rates) > 1 {
			v.Fair = append(v.Fair, Point{at, congestion.Jain(x.Rates)})
		}
	}
}

func streamName(traffic string, from, to int) string {
	return fmt.Sprintf("%s %d to %d", traffic, from, to)
}
