package compare

import (
	"context"
	"fmt"
	"slices"
	"time"

	"softrdma/bench/relay"
)

// A ShareRun measures flows of one sender that share an ECN-marking bottleneck.
type ShareRun struct {
	Sender  Sender
	Flows   int
	Network relay.Config

	missing  string
	goodputs []Goodput
	accounts []Account
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
)

// ShareRuns returns a run of sixteen flows for each sender.
func ShareRuns(senders []Sender) (runs []ShareRun) {
	for _, s := range senders {
		runs = append(runs, ShareRun{Sender: s, Flows: shareFlows, Network: ShareNetwork()})
	}
	return runs
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
	g, a, err := r.measure(ctx, s.Sender, s.Flows, c, s)
	s.goodputs, s.accounts = append(s.goodputs, g), append(s.accounts, a)
	return err
}

func (s *ShareRun) row() ShareRow {
	row := ShareRow{Sender: s.Sender.Name(), Flows: s.Flows, Missing: s.missing}
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
	return row
}

// Reached reports whether the flows share fairly, keep the queue short and lose no
// packets.
func (r *ShareRow) Reached() bool {
	return r.Missing == "" && r.Fairness >= shareFair && r.Peak <= shareLength && r.Dropped == 0
}
