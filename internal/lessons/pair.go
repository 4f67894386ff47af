package lessons

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"softrdma/internal/capture"
	"softrdma/internal/capture/ladder"
	"softrdma/verbs"
)

// An end is one side of a connection: a device, and what a program makes on it.
type end struct {
	name string
	dev  *verbs.Device
	pd   *verbs.PD
	cq   *verbs.CQ
	qp   *verbs.QP
	mr   *verbs.MR
}

// A pair is two ends, A and B, whose queue pairs can be connected.
type pair struct {
	a, b *end
	data [2][]byte // of the programs, in no region
}

// newEnd opens a device with a queue pair and a region of some bytes.
func (t *tour) newEnd(ctx context.Context, via path, n, size int, access verbs.Access, qp verbs.QPConfig) (e *end, err error) {
	e = &end{name: string(rune('A' + n))}
	if e.dev, err = t.open(ctx, via, n); err != nil {
		return nil, fmt.Errorf("device %s: %w", e.name, err)
	}
	t.atEnd(func() { _ = e.dev.Close() })
	if e.pd, err = e.dev.AllocPD(); err != nil {
		return nil, err
	}
	if e.mr, err = e.pd.RegisterMemory(make([]byte, size), access); err != nil {
		return nil, err
	}
	if e.cq, err = e.dev.CreateCQ(verbs.CQConfig{Depth: 256}); err != nil {
		return nil, err
	}
	return e, e.newQP(qp)
}

// newQP makes a queue pair that replaces the previous one.
func (e *end) newQP(c verbs.QPConfig) (err error) {
	if e.qp != nil {
		if err := e.qp.Destroy(); err != nil {
			return err
		}
	}
	c.Type, c.SendCQ = verbs.RC, e.cq
	e.qp, err = e.pd.CreateQP(c)
	return err
}

// everything is what regions of lessons allow unless they are about rights.
const everything = verbs.LocalWrite | verbs.RemoteWrite | verbs.RemoteRead

func (t *tour) newPair(ctx context.Context, via path, size int, qp verbs.QPConfig) (p *pair, err error) {
	p = new(pair)
	if p.a, err = t.newEnd(ctx, via, 0, size, everything, qp); err != nil {
		return nil, err
	}
	p.b, err = t.newEnd(ctx, via, 1, size, everything, qp)
	return p, err
}

// connect connects both queue pairs.
func (p *pair) connect(a, b verbs.ConnectConfig) error {
	x, y := p.a.qp.Endpoint(), p.b.qp.Endpoint()
	return errors.Join(p.b.qp.Connect(y, x, b), p.a.qp.Connect(x, y, a))
}

// again connects new queue pairs, as a program does after an error.
func (p *pair) again(qp verbs.QPConfig, a, b verbs.ConnectConfig) error {
	if err := errors.Join(p.a.newQP(qp), p.b.newQP(qp)); err != nil {
		return err
	}
	return p.connect(a, b)
}

// wait returns the next completion, whatever its status.
func (e *end) wait(ctx context.Context) (verbs.WC, error) {
	wc, err := e.cq.WaitOne(ctx)
	if failed := new(verbs.CompletionError); errors.As(err, &failed) {
		err = nil
	}
	return wc, err
}

// good waits for a completion that must be a success.
func (e *end) good(ctx context.Context) (verbs.WC, error) {
	wc, err := e.wait(ctx)
	if err == nil && wc.Status != verbs.Success {
		err = fmt.Errorf("%s: expected a success: %w", e.name, wc.Err())
	}
	return wc, err
}

// post posts a request of A with n bytes of its region, to the start of B's region or, of a SEND, to a receive.
func (p *pair) post(op verbs.Op, n int) error {
	return p.a.qp.PostSend(verbs.SendWR{
		WRID: 1, Op: op, Flags: verbs.Signaled, SGL: []verbs.SGE{p.a.mr.SGE(0, n)}, RemoteAddr: p.b.mr.Addr(), RKey: p.b.mr.RKey(),
	})
}

// settled is how long a lesson waits for the last answers before it reads the flight recorders.
const settled = 20 * time.Millisecond

// draw draws the packets since a moment as both ends saw them.
func (p *pair) draw(r *Result, since time.Time) error {
	time.Sleep(settled)
	l := ladder.New(2)
	l.Recorded()
	for view, e := range []*end{p.a, p.b} {
		var b bytes.Buffer
		if err := e.dev.WriteRecordCapture(&b); err != nil {
			return err
		}
		in, err := capture.NewReader(&b)
		if err != nil {
			return err
		}
		s, err := capture.Read(context.Background(), in, func(x *capture.Packet, found []capture.Finding) error {
			if !x.Time.Before(since) && (x.DestQPN == p.a.qp.Number() || x.DestQPN == p.b.qp.Number()) {
				x.Comments = slices.DeleteFunc(x.Comments, changes)
				l.Add(view, x, found)
			}
			return nil
		})
		if err != nil {
			return err
		}
		l.Pair(s.Connections)
	}
	f := l.Figure(ladder.Options{QPN: p.b.qp.Number(), All: true, Most: 1, Left: p.a.qp.Number()})
	if r.Quiet = len(f.Connections) == 0; !r.Quiet {
		r.Ladder = &f.Connections[0]
	}
	return nil
}

// changes reports whether a comment is of a change of state that the program made, which may be from before the step.
func changes(comment string) bool {
	return strings.Contains(comment, " -> ") && !strings.Contains(comment, ", ")
}

// failure shows a failed completion: its status, this side's reason and the peer's.
func (r *Result) failure(wc *verbs.WC) {
	r.bad("status", fmt.Sprintf("%d  %v", wc.Status, wc.Status))
	failed := new(verbs.CompletionError)
	if !errors.As(wc.Err(), &failed) {
		return
	}
	r.figure("A's reason", failed.Reason())
	if peer := failed.Peer(); peer != nil {
		r.figure("B says", peer.Error())
	}
}

// qpn writes a queue pair's number.
func qpn(q *verbs.QP) string { return fmt.Sprintf("0x%06x", q.Number()) }
