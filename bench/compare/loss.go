package compare

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"softrdma/bench/relay"
)

// An Impairment is what a relay does to the packets of one measurement. Probabilities
// are from 0 to 1, per packet and direction.
type Impairment struct {
	Trip    time.Duration `json:"round_trip_ns"`
	Loss    float64       `json:"loss"`
	Reorder float64       `json:"reorder"`
}

// String returns the name of the impairment in the report.
func (c Impairment) String() string {
	return fmt.Sprintf("%v with %g %% lost, %g %% reordered", c.Trip, 100*c.Loss, 100*c.Reorder)
}

// The round trip times, loss rates and reordering rates of Impairments.
var (
	lossTrips    = []time.Duration{100 * time.Microsecond, time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond}
	lossLosses   = []float64{0, .001, .01, .05}
	lossReorders = []float64{0, .01}
)

// Impairments returns all combinations of round trip time, loss and reordering.
func Impairments() (all []Impairment) {
	for _, trip := range lossTrips {
		for _, reorder := range lossReorders {
			for _, loss := range lossLosses {
				all = append(all, Impairment{trip, loss, reorder})
			}
		}
	}
	return all
}

// LossNetwork returns the network of all impairments: half of Gigabit Ethernet, a rate
// that two processors can relay while they run both ends, with the queue of a small
// switch.
func LossNetwork() relay.Config { return relay.Config{Rate: 500e6, Queue: 256 << 10} }

// over returns base with the impairment. A reordered packet is delayed by up to a
// quarter of the round trip time.
func (c Impairment) over(base relay.Config, seed uint64) relay.Config {
	base.Delay, base.Loss, base.Reorder, base.ReorderBy, base.Seed = c.Trip/2, c.Loss, c.Reorder, c.Trip/4, seed
	return base
}

// A Carrier is the interface of a Relay that LossRun uses.
type Carrier interface {
	Start(c relay.Config) error
	Stop() (Account, error)
}

// A LossRun measures the goodput of senders over impaired networks.
type LossRun struct {
	Path        *Path
	Relay       Carrier
	Network     relay.Config
	Senders     []Sender
	Impairments []Impairment
	Shares      []ShareRun
	Rounds      int
	Each        time.Duration // of one measurement, without margins
	Progress    func(done, all int, what fmt.Stringer)

	done  int
	table LossTable
}

// A LossRow has the goodput of each sender with one impairment.
type LossRow struct {
	Impairment
	Goodput []float64   `json:"goodput_bits_per_s"` // medians, in the order of the senders; 0 if there is none
	Rounds  [][]float64 `json:"rounds"`             // of each sender
}

// A LossTable has the results of a LossRun.
type LossTable struct {
	Network   relay.Config `json:"relay"`
	Rounds    int          `json:"rounds"`
	Senders   []string     `json:"senders"`
	Missing   []string     `json:"missing,omitempty"` // why senders are missing or measurements failed
	Rows      []LossRow    `json:"impairments"`
	Figures   []Row        `json:"figures"`
	Shares    []ShareRow   `json:"shares"`
	Account   Account      `json:"account"`   // of the relay, for all measurements
	Disturbed int          `json:"disturbed"` // measurements repeated because the relay was too slow
}

// Do measures all senders. Missing names senders that are missing or fail. Do returns an
// error only if ctx ends or the relay fails. The table then has what was measured for all senders before.
func (r *LossRun) Do(ctx context.Context) (*LossTable, error) {
	err := r.rounds(ctx)
	if err != nil {
		r.table.keepWhole()
	}
	r.sum()
	return &r.table, err
}

// keepWhole removes what was not measured for each sender.
func (t *LossTable) keepWhole() {
	t.Rows = slices.DeleteFunc(t.Rows, func(row LossRow) bool {
		whole := t.Rounds
		for _, rounds := range row.Rounds {
			whole = min(whole, len(rounds))
		}
		for k := range row.Rounds {
			row.Rounds[k] = row.Rounds[k][:whole]
		}
		return whole == 0
	})
}

// rounds measures all rounds.
func (r *LossRun) rounds(ctx context.Context) error {
	r.table = LossTable{Network: r.Network, Rounds: r.Rounds}
	var senders []Sender
	for _, s := range r.Senders {
		if err := s.Check(); err != nil {
			r.addMissing(s.Name(), err)
			continue
		}
		senders, r.table.Senders = append(senders, s), append(r.table.Senders, s.Name())
	}
	for _, c := range r.Impairments {
		r.table.Rows = append(r.table.Rows, LossRow{Impairment: c, Goodput: make([]float64, len(senders)), Rounds: make([][]float64, len(senders))})
	}
	for round := range r.Rounds {
		for i := range r.table.Rows {
			row := &r.table.Rows[i]
			for k, s := range senders {
				g, _, err := r.measure(ctx, s, 1, r.Each, row.over(r.Network, uint64(round)<<16|uint64(i)), measurement{s, row.Impairment})
				if err != nil {
					return err
				}
				row.Rounds[k] = append(row.Rounds[k], g.Bits)
			}
		}
		for i := range r.Shares {
			if err := r.share(ctx, &r.Shares[i], round); err != nil {
				return err
			}
		}
	}
	return nil
}

// sum computes medians and figures.
func (r *LossRun) sum() {
	for i := range r.table.Rows {
		for k, rounds := range r.table.Rows[i].Rounds {
			r.table.Rows[i].Goodput[k] = median(rounds)
		}
	}
	for _, f := range lossFigures {
		if len(r.Senders) == 0 {
			break
		}
		if row, ok := r.table.figure(&f, r.Senders[0].Name()); ok {
			r.table.Figures = append(r.table.Figures, row)
		}
	}
	for i := range r.Shares {
		r.table.Shares = append(r.table.Shares, r.Shares[i].row())
	}
}

// A measurement names the current measurement.
type measurement struct {
	Sender
	Impairment
}

func (m measurement) String() string { return fmt.Sprintf("%s, %v", m.Name(), m.Impairment) }

func (r *LossRun) addMissing(who string, err error) {
	r.table.Missing = append(r.table.Missing, fmt.Sprintf("%s: %v", who, err))
}

// all returns the number of measurements.
func (r *LossRun) all() int {
	return r.Rounds * (len(r.Impairments)*len(r.table.Senders) + len(r.Shares))
}

const (
	// A measurement is repeated, up to maxRepeats times, if the 99th percentile of the
	// relay's own delay exceeds maxLate, in µs, plus a share of the path's delay. Such
	// a measurement shows the limits of this machine and not of the sender.
	maxLate    = 1000.0
	lateShare  = .25
	maxRepeats = 2
)

// measure makes one measurement. If it fails the goodput is zero and Missing has the
// error.
func (r *LossRun) measure(ctx context.Context, s Sender, flows int, each time.Duration, c relay.Config, what fmt.Stringer) (g Goodput, a Account, err error) {
	if r.Progress != nil {
		r.Progress(r.done, r.all(), what)
	}
	r.done++
	margin := margin(each, c)
	for repeats := 0; ; repeats++ {
		if err := r.Relay.Start(c); err != nil {
			return g, a, err
		}
		limit := 30*time.Second + 2*(each+2*margin)
		limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("took longer than %v", limit))
		g, err = s.Saturate(limited, r.Path, flows, each+2*margin, margin)
		if err != nil && limited.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(limited), err)
		}
		cancel()
		var stop error
		if a, stop = r.Relay.Stop(); stop != nil {
			return g, a, stop
		}
		r.table.Account.Add(a)
		if ctx.Err() != nil {
			return g, a, ctx.Err()
		}
		if err != nil {
			r.addMissing(what.String(), err)
			return Goodput{}, a, nil
		}
		if a.LateP99 <= maxLate+lateShare*float64(c.Delay.Microseconds()) || repeats == maxRepeats {
			return g, a, nil
		}
		r.table.Disturbed++
	}
}

// margin returns the time that senders have to grow.
func margin(each time.Duration, c relay.Config) time.Duration {
	return max(each/4, 50*c.Delay, 200*time.Millisecond)
}

// A lossFigure is a ratio of two goodputs. The numerator is the first sender's.
type lossFigure struct {
	of, against Impairment
	peer        string // "" for the same sender
	gate        float64
}

// The gates of the goodput, at a round trip time of 1 ms.
var lossFigures = []lossFigure{
	{Impairment{time.Millisecond, .01, 0}, Impairment{time.Millisecond, 0, 0}, "", .9},
	{Impairment{time.Millisecond, .01, 0}, Impairment{time.Millisecond, .01, 0}, "TCP cubic", 3},
	{Impairment{time.Millisecond, .05, 0}, Impairment{time.Millisecond, 0, 0}, "", .75},
}

// figure returns the row of a figure, and reports whether both goodputs were measured.
func (t *LossTable) figure(f *lossFigure, sender string) (Row, bool) {
	name, peer := fmt.Sprintf("%v, of %s", f.of, f.peer), f.peer
	if peer == "" {
		name, peer = fmt.Sprintf("%v, of the goodput without loss", f.of), sender
	}
	a, b := t.rounds(f.of, sender), t.rounds(f.against, peer)
	if len(a) == 0 || len(b) == 0 {
		return Row{}, false
	}
	row := Row{Name: name, Unit: "Mbit/s", Gate: f.gate, Figure: Figure{Name: name, Gate: f.gate}}
	row.compare(a, b, 1e-6)
	if math.IsNaN(row.Ratio) || math.IsInf(row.Ratio, 0) {
		row.Missing = "no data was received"
	}
	return row, true
}

// rounds returns a sender's goodput in each round with one impairment.
func (t *LossTable) rounds(c Impairment, sender string) []float64 {
	for i := range t.Rows {
		for k, name := range t.Senders {
			if t.Rows[i].Impairment == c && name == sender {
				return t.Rows[i].Rounds[k]
			}
		}
	}
	return nil
}

// Plots returns plots of the goodput over the loss rate, one per round trip time.
func (t *LossTable) Plots() (plots []Plot) {
	for _, trip := range lossTrips {
		p := Plot{Title: fmt.Sprintf("Goodput, round trip %v", trip), Unit: "Mbit/s"}
		for _, l := range lossLosses {
			p.Ticks = append(p.Ticks, Tick{l, fmt.Sprintf("%g %%", 100*l)})
		}
		for k, name := range t.Senders {
			for _, reorder := range lossReorders {
				c := Curve{Name: name}
				if reorder > 0 {
					c.Name, c.Dashed = fmt.Sprintf("%s, %g %% reordered", name, 100*reorder), true
				}
				for i := range t.Rows {
					if row := &t.Rows[i]; row.Trip == trip && row.Reorder == reorder {
						c.Points = append(c.Points, Point{row.Loss, row.Goodput[k] / 1e6})
					}
				}
				if len(c.Points) > 0 {
					p.Curves = append(p.Curves, c)
				}
			}
		}
		if len(p.Curves) > 0 {
			plots = append(plots, p)
		}
	}
	return plots
}
