package compare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"softrdma/bench/relay"
)

// A ShareRun measures flows that share a bottleneck.
type ShareRun struct {
	Sender  Sender
	Flows   int
	Network relay.Config
	Least   time.Duration // of one measurement: slow controls take long to find their shares
	Gate    ShareGate

	missing  string
	goodputs []Goodput
	accounts []Account
}

// A ShareGate is what flows that share a bottleneck are to reach.
type ShareGate struct {
	Fairness float64 `json:"fairness"`   // Jain's index, at least
	Peak     int     `json:"peak_bytes"` // of the queue after the start, and no packet dropped; 0 for any
}

// ShareNetwork returns a switch port that marks packets when more than 64 KiB are
// queued. Its buffer has room for the initial windows of sixteen flows.
func ShareNetwork() relay.Config {
	return relay.Config{Rate: 500e6, Queue: 4 << 20, MarkAbove: 64 << 10, Delay: 50 * time.Microsecond, Seed: 16}
}

// The gates of flows that share a bottleneck.
const (
	shareFlows  = 16
	shareFair   = .95
	shareLength = 512 << 10 // maximum bytes in the queue once all flows have started
	rivalFair   = .9
)

// ShareRuns returns a run of sixteen flows for each sender.
func ShareRuns(senders []Sender) (runs []ShareRun) {
	for _, s := range senders {
		runs = append(runs, ShareRun{Sender: s, Flows: shareFlows, Network: ShareNetwork(), Gate: ShareGate{shareFair, shareLength}})
	}
	return runs
}

// RivalNetwork returns a long path whose queue holds as much as fits into it, and marks nothing.
func RivalNetwork() relay.Config {
	return relay.Config{Rate: 500e6, Queue: 1250e3, Delay: 10 * time.Millisecond, Seed: 2}
}

// RivalRuns returns a run of two flows for each rival: one flow of the sender beside one of the rival.
func RivalRuns(sender Sender, rivals []Sender) (runs []ShareRun) {
	for _, r := range rivals {
		runs = append(runs, ShareRun{Sender: Rivals{sender, r}, Flows: 2, Network: RivalNetwork(), Least: 30 * time.Second, Gate: ShareGate{Fairness: rivalFair}})
	}
	return runs
}

// Rivals are two senders that send at the same time, with half of the flows each.
type Rivals [2]Sender

// Name returns both names.
func (r Rivals) Name() string { return r[0].Name() + " beside " + r[1].Name() }

// Check implements Sender.
func (r Rivals) Check() error { return errors.Join(r[0].Check(), r[1].Check()) }

// Saturate implements Sender.
func (r Rivals) Saturate(ctx context.Context, p *Path, flows int, d, margin time.Duration) (Goodput, error) {
	if r[0].Name() == r[1].Name() { // one process, as both have the same address
		return r[0].Saturate(ctx, p, flows, d, margin)
	}
	var parts [2]Goodput
	var errs [2]error
	var both sync.WaitGroup
	for i, s := range r {
		both.Go(func() { parts[i], errs[i] = s.Saturate(ctx, p, flows/2, d, margin) })
	}
	both.Wait()
	g := newGoodput(slices.Concat(parts[0].Shares, parts[1].Shares))
	g.Counters = parts[0].Counters
	return g, errors.Join(errs[:]...)
}

// A ShareRow has the results of a ShareRun.
type ShareRow struct {
	Sender   string  `json:"sender"`
	Flows    int     `json:"flows"`
	Bits     float64 `json:"bits_per_s"` // median
	Fairness float64 `json:"fairness"`   // Jain's index, median
	Lowest   float64 `json:"lowest_fairness"`
	Peak     int     `json:"peak_bytes"`        // maximum length of the queue after the start, of all rounds
	Dropped  int     `json:"dropped"`           // by a full queue, in all rounds
	Marked   int     `json:"marked"`            // in all rounds
	Missing  string  `json:"missing,omitempty"` // why there are no results
	// Shares are the median flows, in bits per second, if the flows are of different senders.
	Shares []float64 `json:"shares_bits_per_s,omitempty"`
	Gate   ShareGate `json:"gate"`
}

// String returns the name of the run in the report.
func (s *ShareRun) String() string {
	return fmt.Sprintf("%s, %d flows", s.Sender.Name(), s.Flows)
}

func (r *LossRun) share(ctx context.Context, s *ShareRun, round int) error {
	if s.missing != "" {
		return nil
	}
	if err := s.Sender.Check(); err != nil {
		s.missing = err.Error()
		return nil
	}
	c := s.Network
	c.Seed += uint64(round)
	g, a, err := r.measure(ctx, s.Sender, s.Flows, max(r.Each, s.Least), c, s)
	s.goodputs, s.accounts = append(s.goodputs, g), append(s.accounts, a)
	return err
}

func (s *ShareRun) row() ShareRow {
	row := ShareRow{Sender: s.Sender.Name(), Flows: s.Flows, Missing: s.missing, Gate: s.Gate}
	if row.Missing != "" || len(s.goodputs) == 0 {
		return row
	}
	var bits, fair []float64
	for i := range s.goodputs {
		g, a := &s.goodputs[i], &s.accounts[i]
		bits, fair = append(bits, g.Bits), append(fair, g.Fairness())
		row.Peak = max(row.Peak, a.Later)
		row.Dropped += a.Forward.Dropped
		row.Marked += a.Forward.Marked
	}
	row.Bits, row.Fairness, row.Lowest = median(bits), median(fair), slices.Min(fair)
	if _, ok := s.Sender.(Rivals); ok {
		row.Shares = medianShares(s.goodputs)
	}
	return row
}

// medianShares returns the median of each flow.
func medianShares(goodputs []Goodput) (shares []float64) {
	for flow := range goodputs[0].Shares {
		var all []float64
		for i := range goodputs {
			if flow < len(goodputs[i].Shares) {
				all = append(all, goodputs[i].Shares[flow])
			}
		}
		shares = append(shares, median(all))
	}
	return shares
}

// Reached reports whether the flows share fairly and, if the gate bounds the queue, keep it short and
// lose no packets.
func (r *ShareRow) Reached() bool {
	return r.Missing == "" && r.Fairness >= r.Gate.Fairness && (r.Gate.Peak == 0 || r.Peak <= r.Gate.Peak && r.Dropped == 0)
}
