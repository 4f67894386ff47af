package capture

import (
	"context"
	"errors"
	"io"
	"time"
)

// A Summary summarises a capture.
type Summary struct {
	Frames, Packets int            // all, and those of RoCE and InfiniBand
	Networks        map[string]int // packets by Packet.Network
	Skipped         map[string]int // other frames by what they have
	Findings        [Fault + 1]int // by level
	Untracked       uint64         // packets of no connection
	Connections     []Connection
	First, Last     time.Time // of the packets
}

// Totals are a summary's numbers in JSON.
type Totals struct {
	Packets  int            `json:"packets"` // of RoCE and InfiniBand
	Networks map[string]int `json:"networks"`
	Skipped  map[string]int `json:"skipped"`
	Seconds  float64        `json:"seconds"`
	Faults   int            `json:"faults"`
	Warnings int            `json:"warnings"`
	Notes    int            `json:"notes"`
}

// Totals returns the summary's numbers.
func (s *Summary) Totals() Totals {
	return Totals{s.Packets, s.Networks, s.Skipped, s.Last.Sub(s.First).Seconds(), s.Findings[Fault], s.Findings[Warning], s.Findings[Note]}
}

// Read analyses the packets that a Reader yields, and calls each with them and their findings, which are valid
// during the call. If that fails, or the file does, the summary is of the packets before.
func Read(ctx context.Context, r *Reader, each func(*Packet, []Finding) error) (*Summary, error) {
	a, s := NewAnalyzer(), &Summary{Networks: make(map[string]int)}
	var p Packet
	var err error
	for ctx.Err() == nil {
		if err = r.Next(&p); err != nil {
			break
		}
		s.Packets++
		s.Networks[p.Network()]++
		if s.Packets == 1 {
			s.First = p.Time
		}
		s.Last = p.Time
		findings := a.Add(&p)
		for _, f := range findings {
			s.Findings[min(f.Level, Fault)]++
		}
		if err = each(&p, findings); err != nil {
			break
		}
	}
	s.Frames, _ = r.Packets()
	s.Skipped = r.Skipped()
	s.Connections, s.Untracked = a.Connections(), a.Untracked()
	if err == io.EOF {
		err = nil
	}
	return s, errors.Join(err, ctx.Err())
}
