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
		Credits: 512, Queue: 512 << 10, MarkAbove: 64 << 10, Loss: loss,
	}
}

// losses are the loss probabilities of the rows.
var losses = []float64{0, 1e-5, 1e-3}

// Rows returns the lines of the table.
func Rows() (rows []Row) {
	idle := Load{Name: "none", Probes: [][2]int{{0, 15}}, Measure: 4 * time.Millisecond}
	for k := InfiniBand; k <= IWARP; k++ {
		if k != RoCESelective { // without losses it equals RoCE
			rows = append(rows, Row{idle, parameters("fat-tree:k=4", 0), k})
		}
	}
	for _, l := range []struct {
		load     Load
		topology string
	}{{incast(), "star:8"}, {permutation(), "fat-tree:k=4"}} {
		for _, loss := range losses {
			for k := InfiniBand; k <= IWARP; k++ {
				if k != RoCESelective || loss > 0 {
					rows = append(rows, Row{l.load, parameters(l.topology, loss), k})
				}
			}
		}
	}
	return rows
}

// incast has six hosts that write to one, and a seventh that sends it probes.
func incast() Load {
	l := Load{Name: "incast", Probes: [][2]int{{7, 0}}, Warm: 20 * time.Millisecond, Measure: 40 * time.Millisecond}
	for i := range 6 {
		l.Streams = append(l.Streams, [2]int{i + 1, 0})
	}
	return l
}

// permutation has sixteen hosts, each of which writes and sends probes to a randomly drawn
// other one.
func permutation() Load {
	const hosts = 16
	l := Load{Name: "permutation", Warm: 20 * time.Millisecond, Measure: 10 * time.Millisecond}
	to := rand.New(rand.NewPCG(1, 16)).Perm(hosts)
	for i := range hosts { // along a cycle, so that no host sends to itself
		l.Streams = append(l.Streams, [2]int{to[i], to[(i+1)%hosts]})
	}
	l.Probes = l.Streams
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
const Header = "| load | loss | protocol | latency, median | 99th | Gb/s | fairness | drops |\n" +
	"|---|---|---|---:|---:|---:|---:|---:|\n"

// Line returns the row with its result, in Markdown.
func (r *Row) Line(x *Result) string {
	rate, fair := "", ""
	if len(r.Load.Streams) > 0 {
		rate, fair = fmt.Sprintf("%.1f", x.Rate/1e9), fmt.Sprintf("%.3f", x.Fair)
	}
	cells := []string{r.name(), micros(x.Median), micros(x.P99), rate, fair, strconv.Itoa(x.Drops)}
	return "| " + strings.Join(cells, " | ") + " |\n"
}

func micros(d time.Duration) string {
	us := float64(d) / 1e3
	if us < 10 {
		return fmt.Sprintf("%.2f µs", us)
	}
	return fmt.Sprintf("%.0f µs", us)
}
