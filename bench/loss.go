package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"softrdma/bench/relay"
)

// A Course is what a relay does to the packets of one measurement. Probabilities
// are of 0 to 1 per packet, each way.
type Course struct {
	Trip    time.Duration `json:"round_trip_ns"`
	Loss    float64       `json:"loss"`
	Reorder float64       `json:"reorder"`
}

// String names the course as the report does.
func (c Course) String() string {
	return fmt.Sprintf("%v with %g %% lost, %g %% late", c.Trip, 100*c.Loss, 100*c.Reorder)
}

// The courses' round trips, losses and reordering.
var (
	lossTrips    = []time.Duration{100 * time.Microsecond, time.Millisecond, 20 * time.Millisecond}
	lossLosses   = []float64{0, .001, .01, .05}
	lossReorders = []float64{0, .01}
)

// Courses are all of them.
func Courses() (all []Course) {
	for _, trip := range lossTrips {
		for _, reorder := range lossReorders {
			for _, loss := range lossLosses {
				all = append(all, Course{trip, loss, reorder})
			}
		}
	}
	return all
}

// LossNetwork is what all courses have in common: half a Gigabit Ethernet, which
// two processors carry beside both ends, with the queue of a small switch.
func LossNetwork() relay.Config { return relay.Config{Rate: 500e6, Queue: 256 << 10} }

// over is the relay on the course. A late packet is so by up to a quarter of
// the round trip.
func (c Course) over(base relay.Config, seed uint64) relay.Config {
	base.Delay, base.Loss, base.Reorder, base.ReorderBy, base.Seed = c.Trip/2, c.Loss, c.Reorder, c.Trip/4, seed
	return base
}

// A Carrier is a relay as far as measuring needs it.
type Carrier interface {
	Start(c relay.Config) error
	Stop() (Account, error)
}

// A LossRun measures the goodput of senders on courses.
type LossRun struct {
	Path     *Path
	Relay    Carrier
	Network  relay.Config
	Senders  []Sender
	Courses  []Course
	Shares   []ShareRun
	Rounds   int
	Each     time.Duration // that counts, of one measurement
	Progress func(done, all int, what fmt.Stringer)

	done  int
	table LossTable
}

// A LossRow is the goodput of each sender on one course.
type LossRow struct {
	Course
	Goodput []float64   `json:"goodput_bits_per_s"` // medians, in the order of the senders; 0 where there is none
	Rounds  [][]float64 `json:"rounds"`             // of each sender
}

// A LossTable is what a LossRun found.
type LossTable struct {
	Network   relay.Config `json:"relay"`
	Rounds    int          `json:"rounds"`
	Senders   []string     `json:"senders"`
	Lacks     []string     `json:"lacks,omitempty"` // why senders are left out, or a measurement failed
	Rows      []LossRow    `json:"courses"`
	Figures   []Row        `json:"figures"`
	Shares    []ShareRow   `json:"shares"`
	Account   Account      `json:"account"`   // of the relay, all measurements together
	Disturbed int          `json:"disturbed"` // measurements taken again, because the relay had come late
}

// Do measures. A sender that is missing or fails is named and left out; only
// the end of ctx, or a relay that fails, ends the whole.
func (r *LossRun) Do(ctx context.Context) (*LossTable, error) {
	r.table = LossTable{Network: r.Network, Rounds: r.Rounds}
	var senders []Sender
	for _, s := range r.Senders {
		if err := s.Lack(); err != nil {
			r.lack(s.Name(), err)
			continue
		}
		senders, r.table.Senders = append(senders, s), append(r.table.Senders, s.Name())
	}
	for _, c := range r.Courses {
		r.table.Rows = append(r.table.Rows, LossRow{Course: c, Goodput: make([]float64, len(senders)), Rounds: make([][]float64, len(senders))})
	}
	for round := range r.Rounds {
		for i := range r.table.Rows {
			row := &r.table.Rows[i]
			for k, s := range senders {
				g, _, err := r.pour(ctx, s, 1, row.over(r.Network, uint64(round)<<16|uint64(i)), measuring{s, row.Course})
				if err != nil {
					return nil, err
				}
				row.Rounds[k] = append(row.Rounds[k], g.Bits)
			}
		}
		for i := range r.Shares {
			if err := r.share(ctx, &r.Shares[i], round); err != nil {
				return nil, err
			}
		}
	}
	r.sum()
	return &r.table, nil
}

// sum makes medians and figures of what was measured.
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

// measuring is what is being measured.
type measuring struct {
	Sender
	Course
}

func (m measuring) String() string { return fmt.Sprintf("%s, %v", m.Name(), m.Course) }

func (r *LossRun) lack(who string, err error) {
	r.table.Lacks = append(r.table.Lacks, fmt.Sprintf("%s: %v", who, err))
}

// all is how many measurements there are.
func (r *LossRun) all() int {
	return r.Rounds * (len(r.Courses)*len(r.table.Senders) + len(r.Shares))
}

const (
	// latest is how late the relay's frames may be, 99 in 100 of them, in µs
	// and beside it as a part of the way: a measurement with later ones is of
	// the machine, and is taken again, so many times at most.
	latest     = 1000.0
	lateShare  = .25
	againLimit = 2
)

// pour takes one measurement. One that fails counts as no goodput, and is told.
func (r *LossRun) pour(ctx context.Context, s Sender, flows int, c relay.Config, what fmt.Stringer) (g Goodput, a Account, err error) {
	if r.Progress != nil {
		r.Progress(r.done, r.all(), what)
	}
	r.done++
	margin := r.margin(c)
	for again := 0; ; again++ {
		if err := r.Relay.Start(c); err != nil {
			return g, a, err
		}
		limit := 30*time.Second + 2*(r.Each+2*margin)
		limited, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("took longer than %v", limit))
		g, err = s.Pour(limited, r.Path, flows, r.Each+2*margin, margin)
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
			r.lack(what.String(), err)
			return Goodput{}, a, nil
		}
		if a.LateP99 <= latest+lateShare*float64(c.Delay.Microseconds()) || again == againLimit {
			return g, a, nil
		}
		r.table.Disturbed++
	}
}

// margin is how long senders may take to grow.
func (r *LossRun) margin(c relay.Config) time.Duration {
	return max(r.Each/4, 50*c.Delay, 200*time.Millisecond)
}

// A lossFigure is a ratio of two goodputs, the first of which is the first
// sender's.
type lossFigure struct {
	of, against Course
	peer        string // "" for the same sender
	gate        float64
}

// What the goodput is to reach, at a round trip of a millisecond.
var lossFigures = []lossFigure{
	{Course{time.Millisecond, .01, 0}, Course{time.Millisecond, 0, 0}, "", .9},
	{Course{time.Millisecond, .01, 0}, Course{time.Millisecond, .01, 0}, "TCP cubic", 3},
	{Course{time.Millisecond, .05, 0}, Course{time.Millisecond, 0, 0}, "", .75},
}

// figure makes the row of a figure of sender, where both goodputs were measured.
func (t *LossTable) figure(f *lossFigure, sender string) (Row, bool) {
	name, peer := fmt.Sprintf("%v, of %s", f.of, f.peer), f.peer
	if peer == "" {
		name, peer = fmt.Sprintf("%v, of nothing lost", f.of), sender
	}
	a, b := t.rounds(f.of, sender), t.rounds(f.against, peer)
	if len(a) == 0 || len(b) == 0 {
		return Row{}, false
	}
	row := Row{Name: name, Unit: "Mbit/s", Gate: f.gate, Figure: Figure{Name: name, Gate: f.gate}}
	row.compare(a, b, 1e-6)
	if math.IsNaN(row.Ratio) || math.IsInf(row.Ratio, 0) {
		row.Lack = "nothing came through"
	}
	return row, true
}

// rounds are a sender's goodputs on a course.
func (t *LossTable) rounds(c Course, sender string) []float64 {
	for i := range t.Rows {
		for k, name := range t.Senders {
			if t.Rows[i].Course == c && name == sender {
				return t.Rows[i].Rounds[k]
			}
		}
	}
	return nil
}

// Plots draw the goodput over the loss, one for each round trip.
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
					c.Name, c.Dashed = fmt.Sprintf("%s, %g %% late", name, 100*reorder), true
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
