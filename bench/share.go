package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"softrdma/bench/relay"
)

// A ShareRun is flows of one sender that share a bottleneck which marks.
type ShareRun struct {
	Sender  Sender
	Flows   int
	Network relay.Config

	lack     string
	goodputs []Goodput
	accounts []Account
}

// ShareNetwork is a port that marks packets when more than 64 KiB wait. Its
// buffer holds the first windows of sixteen flows.
func ShareNetwork() relay.Config {
	return relay.Config{Rate: 500e6, Queue: 4 << 20, MarkAbove: 64 << 10, Delay: 50 * time.Microsecond, Seed: 16}
}

// What flows that share a bottleneck are to reach.
const (
	shareFlows  = 16
	shareFair   = .95
	shareLength = 512 << 10 // bytes that may wait once all have started
)

// ShareRuns are sixteen flows of each sender.
func ShareRuns(senders []Sender) (runs []ShareRun) {
	for _, s := range senders {
		runs = append(runs, ShareRun{Sender: s, Flows: shareFlows, Network: ShareNetwork()})
	}
	return runs
}

// A ShareRow is what became of the flows.
type ShareRow struct {
	Sender   string  `json:"sender"`
	Flows    int     `json:"flows"`
	Bits     float64 `json:"bits_per_s"` // median, as those below
	Fairness float64 `json:"fairness"`   // Jain's index
	Lowest   float64 `json:"lowest_fairness"`
	Peak     int     `json:"peak_bytes"`     // that waited at most, after the start, in any round
	Dropped  int     `json:"dropped"`        // for a full queue, in all rounds
	Marked   int     `json:"marked"`         // in all rounds
	Lack     string  `json:"lack,omitempty"` // why there is nothing
}

// String names the run as the report does.
func (s *ShareRun) String() string {
	return fmt.Sprintf("%s, %d flows", s.Sender.Name(), s.Flows)
}

func (r *LossRun) share(ctx context.Context, s *ShareRun, round int) error {
	if s.lack != "" {
		return nil
	}
	if err := s.Sender.Lack(); err != nil {
		s.lack = err.Error()
		return nil
	}
	c := s.Network
	c.Seed += uint64(round)
	g, a, err := r.pour(ctx, s.Sender, s.Flows, c, s)
	s.goodputs, s.accounts = append(s.goodputs, g), append(s.accounts, a)
	return err
}

func (s *ShareRun) row() ShareRow {
	row := ShareRow{Sender: s.Sender.Name(), Flows: s.Flows, Lack: s.lack}
	if row.Lack != "" || len(s.goodputs) == 0 {
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
	return row
}

// Reached tells whether the flows share fairly, keep the queue short and lose
// nothing.
func (r *ShareRow) Reached() bool {
	return r.Lack == "" && r.Fairness >= shareFair && r.Peak <= shareLength && r.Dropped == 0
}
