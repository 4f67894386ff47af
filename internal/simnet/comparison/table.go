package comparison

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// A Row is one line of the table: a load with its fabric, a loss rate and a protocol.
type Row struct {
	Load     Load
	Params   Parameters
	Protocol Protocol
}

// links is the speed of the links of each fabric: 25 Gb/s of data.
const links = "width=1,speed=EDR"

// parameters returns the same for each row except for topology and loss.
func parameters(topology string, loss float64) Parameters {
	return Parameters{
		Topology: topology + "," + links, Bandwidth: 25e9, Cable: 25 * time.Nanosecond,
		InfiniBandHop: 100 * time.Nanosecond, EthernetHop: 230 * time.Nanosecond,
		Credits: 512, Buffer: 1 << 20, MarkAbove: 64 << 10, Loss: loss, Seed: 3,
	}
}

// The topologies of rows. No router forwards RoCE v1, so it has rows of the single switch.
const (
	single = "star:8"
	levels = "fat-tree:k=4"
)

// Rows returns the lines of the table.
func Rows() (rows []Row) {
	for _, x := range []struct {
		load     Load
		topology string
		losses   []float64
	}{
		{idle(), levels, []float64{0}},
		{incast(), single, []float64{0, 1e-3}},
		{permutation(), levels, []float64{0}},
		{messages(), levels, []float64{0, 1e-3}},
	} {
		for _, loss := range x.losses {
			for k := range protocols {
				if k != RoCEv1 || x.topology == single {
					rows = append(rows, Row{x.load, parameters(x.topology, loss), k})
				}
			}
		}
	}
	return rows
}

// short is the probes of most loads.
func short(name string) Load { return Load{Name: name, Size: 64, Interval: 10 * time.Microsecond} }

// idle has probes between two hosts that are far from each other.
func idle() Load {
	l := short("none")
	l.Probes, l.Measure = [][2]int{{0, 15}}, 4*time.Millisecond
	return l
}

// incast has six hosts that write to one, and a seventh that sends it probes.
func incast() Load {
	l := short("incast")
	l.Probes, l.Warm, l.Measure = [][2]int{{7, 0}}, 20*time.Millisecond, 40*time.Millisecond
	for i := range 6 {
		l.Streams = append(l.Streams, [2]int{i + 1, 0})
	}
	return l
}

// permutation has sixteen hosts, each of which writes and sends probes to a randomly drawn
// other one.
func permutation() Load {
	const hosts = 16
	l := short("permutation")
	l.Warm, l.Measure = 20*time.Millisecond, 10*time.Millisecond
	to := rand.New(rand.NewPCG(1, 16)).Perm(hosts)
	for i := range hosts { // along a cycle, so that no host sends to itself
		l.Streams = append(l.Streams, [2]int{to[i], to[(i+1)%hosts]})
	}
	l.Probes = l.Streams
	return l
}

// messages has sixteen hosts that send messages of 64 KiB to each other at random moments, for 30 % of what their links carry.
func messages() Load {
	const hosts, share = 16, 0.3
	l := Load{Name: "messages", Size: Message, Random: true, Warm: 5 * time.Millisecond, Measure: 15 * time.Millisecond}
	for i := range hosts * hosts {
		if from, to := i/hosts, i%hosts; from != to {
			l.Probes = append(l.Probes, [2]int{from, to})
		}
	}
	each := share * 25e9 / (hosts - 1) // bits per second of a pair
	l.Interval = time.Duration(Message * 8 / each * 1e9)
	return l
}

// Run runs the row's load.
func (r *Row) Run() (Result, error) {
	x, err := Run(r.Protocol, &r.Params, &r.Load)
	if err != nil {
		err = fmt.Errorf("%s: %w", r.name(), err)
	}
	return x, err
}

func (r *Row) name() string {
	return fmt.Sprintf("%s | %s | %v", r.Load.Name, lossText(r.Params.Loss), r.Protocol)
}

func lossText(p float64) string {
	if p == 0 {
		return "0"
	}
	return strconv.FormatFloat(100*p, 'f', -1, 64) + " %"
}

// Header returns the head of the table, in Markdown.
const Header = "| load | loss | protocol | latency, median | 99th | slowdown, median | 99th | Gb/s | fairness | drops | pauses |\n" +
	"|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n"

// Line returns the row with its result, in Markdown.
func (r *Row) Line(x *Result) string {
	rate, fair := "", ""
	if r.Load.Name != "none" {
		rate = fmt.Sprintf("%.1f", x.Rate/1e9)
	}
	if len(r.Load.Streams) > 0 {
		fair = fmt.Sprintf("%.3f", x.Fair)
	}
	cells := []string{
		r.name(), micros(x.Median), micros(x.P99), ratio(x.SlowMedian), ratio(x.SlowP99), rate, fair, strconv.Itoa(x.Drops),
		strconv.FormatUint(x.Pauses, 10),
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

func ratio(x float64) string {
	if x < 10 {
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

func micros(d time.Duration) string {
	us := float64(d) / 1e3
	if us < 10 {
		return fmt.Sprintf("%.2f µs", us)
	}
	return fmt.Sprintf("%.0f µs", us)
}
