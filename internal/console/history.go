package console

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"softrdma/internal/capture"
	"softrdma/internal/capture/ladder"
	"softrdma/internal/control"
	"softrdma/internal/object"
	"softrdma/internal/sampler"
)

// A history is what the flight recorders of its ends have of a queue pair.
type history struct {
	Lines  []string       `json:"lines"`           // changes of state, refusals and failed completions, the oldest first
	Other  *otherEnd      `json:"other,omitempty"` // nil if the peer is no device of this user on this host
	Ladder *ladder.Figure `json:"ladder"`          // of both ends, if Other is there
}

// An otherEnd is the queue pair at the other end of a connection.
type otherEnd struct {
	PID    int      `json:"pid"`
	Device string   `json:"device"`
	QPN    uint32   `json:"qpn"`
	Lines  []string `json:"lines"`
	Error  string   `json:"error,omitempty"` // its flight recorder cannot be read
}

// queuePair replies with the history of a queue pair.
func (s *Server) queuePair(w http.ResponseWriter, r *http.Request, at control.Socket) error {
	n, err := strconv.ParseUint(r.PathValue("qpn"), 10, 24)
	if err != nil {
		control.Refuse(w, http.StatusBadRequest, "queue pair: expected a number of 24 bits, found %q", r.PathValue("qpn"))
		return nil
	}
	own := sampler.Target{Socket: at, Device: r.PathValue("device"), QPN: uint32(n)}
	var h history
	if h.Lines, err = happened(r.Context(), own); err != nil {
		return err
	}
	ends := []sampler.Target{own}
	other, known := s.otherEnd(own)
	if known {
		h.Other = &otherEnd{PID: other.Socket.PID, Device: other.Device, QPN: other.QPN}
		if h.Other.Lines, err = happened(r.Context(), other); err != nil {
			h.Other.Error = err.Error() // it has ended in the meantime
		} else {
			ends = append(ends, other)
		}
	}
	if h.Ladder, err = drawEnds(r.Context(), ends, own.QPN); err != nil {
		return err
	}
	reply(w, h)
	return nil
}

// drawEnds returns the ladder of a connection from the flight recorders of one or both of its ends. These are
// asked at the same time, because in a fast connection the recorders hold few milliseconds.
func drawEnds(ctx context.Context, ends []sampler.Target, qpn uint32) (*ladder.Figure, error) {
	records, failures := make([]*bytes.Buffer, len(ends)), make([]error, len(ends))
	var asking sync.WaitGroup
	for i, e := range ends {
		asking.Go(func() { records[i], failures[i] = readRecord(ctx, e) })
	}
	asking.Wait()
	if err := errors.Join(failures...); err != nil {
		return nil, err
	}
	l := ladder.New(len(ends))
	l.Recorded()
	keep := func(p *capture.Packet) bool {
		return slices.ContainsFunc(ends, func(e sampler.Target) bool { return p.DestQPN == e.QPN })
	}
	if len(ends) == 1 {
		keep = nil // the peer's number is not known
	}
	for i, b := range records {
		if _, err := readCapture(ctx, l, i, ends[i].Device, b, keep); err != nil {
			return nil, err
		}
	}
	return l.Figure(ladder.Options{QPN: qpn, All: true, Most: 1, Left: qpn}), nil
}

// happened returns what happened to a queue pair, besides packets.
func happened(ctx context.Context, of sampler.Target) ([]string, error) {
	lines, err := sampler.Record(ctx, of)
	list := []string{}
	for _, line := range lines {
		f := strings.Fields(line)
		if len(f) > 1 && f[1] != "sent" && f[1] != "received" {
			list = append(list, strings.Join(f, " "))
		}
	}
	return list, err
}

// otherEnd finds the queue pair at the other end of a connection in the last sample: the one that has the peer's
// address and number, and names this one as its own peer.
func (g *gatherer) otherEnd(of sampler.Target) (other sampler.Target, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.sample == nil {
		return other, false
	}
	address, q := g.find(of)
	if q == nil || q.Peer == "" {
		return other, false
	}
	for i := range g.sample.Processes {
		p := &g.sample.Processes[i]
		for k := range p.Open {
			d := &p.Open[k]
			for n := range d.QPs {
				x := &d.QPs[n]
				if d.Address == q.Peer && x.Number == q.PeerQP && x.Peer == address && x.PeerQP == q.Number {
					return sampler.Target{Socket: p.Socket, Device: d.Name, QPN: x.Number}, true
				}
			}
		}
	}
	return other, false
}

// find returns a queue pair in the last sample, and the address of its device.
func (g *gatherer) find(of sampler.Target) (address string, q *object.QP) {
	for i := range g.sample.Processes {
		p := &g.sample.Processes[i]
		if p.Socket.PID != of.Socket.PID {
			continue
		}
		for k := range p.Open {
			for n := range p.Open[k].QPs {
				if x := &p.Open[k].QPs[n]; p.Open[k].Name == of.Device && x.Number == of.QPN {
					return p.Open[k].Address, x
				}
			}
		}
	}
	return "", nil
}
