package adapter

import (
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/recorder"
)

// OnFailure lets f be told of each queue pair that goes to ERR for another reason than its program's
// wish. f is called with the lane, and must not block.
func (d *Device) OnFailure(f func(qpn uint32, why reason.Detail)) { d.failed.Store(&f) }

// recordState records a change of state, and tells of a failure.
func (l *lane) recordState(p *machine.Port, from qp.State, why reason.Detail) {
	l.recorder.Add(recorder.Record{
		Kind: recorder.State, Time: l.dev.clock(), QPN: p.QPN, From: uint8(from), To: uint8(p.Attr.State), Detail: why,
	})
	if p.Attr.State != qp.Err || why.Reason == reason.None {
		return
	}
	l.dev.failures.cause(p.QPN, why)
	if f := l.dev.failed.Load(); f != nil {
		(*f)(p.QPN, why)
	}
}

// failed remembers and records a failed completion, unless the request was flushed after another failure.
func (l *lane) failed(e *queue.CQE) {
	if e.Status == queue.WRFlushErr {
		return
	}
	own, peer := e.Reasons()
	l.dev.failures.add(Failure{QPN: e.QPN, Status: e.Status, Own: own, Peer: peer})
	l.recorder.Add(recorder.Record{
		Kind: recorder.Completed, Time: l.dev.clock(), QPN: e.QPN, WRID: e.WRID, Status: uint8(e.Status), Detail: own, Said: peer,
	})
}

// Records returns the flight recorder: the last records of all lanes and the last refusals, the oldest
// first, how many older ones are lost, and the time of the clock by which they are.
func (d *Device) Records() (all []recorder.Record, lost uint64, now time.Duration) {
	all, lost = d.refusals.Records()
	d.locked(func(l *lane) {
		of, n := l.recorder.Records()
		all, lost = append(all, of...), lost+n
	})
	return recorder.Merge(all), lost, d.clock()
}

// A Follower reads what happens to the queue pairs of a device, from the flight recorder. One goroutine
// may use it. It costs the device nothing while it is not used.
type Follower struct {
	dev      *Device
	refusals [2]recorder.Cursor
	lanes    map[*lane]*recorder.Cursor
}

// Follow returns a Follower that begins with what happens from now on.
func Follow(d *Device) *Follower {
	f := &Follower{dev: d, lanes: make(map[*lane]*recorder.Cursor)}
	f.Next()
	return f
}

// Next returns the refusals, changes of state and failed completions since the last call, the oldest first,
// how many of them are lost because the recorder keeps few, and the time of the clock by which they are.
func (f *Follower) Next() (all []recorder.Record, lost uint64, now time.Duration) {
	all, lost = f.dev.refusals.Since(&f.refusals)
	f.dev.locked(func(l *lane) {
		c := f.lanes[l]
		if c == nil {
			c = new(recorder.Cursor)
			f.lanes[l] = c
		}
		of, n := l.recorder.Since(c)
		all, lost = append(all, of...), lost+n
	})
	return recorder.Merge(all), lost, f.dev.clock()
}

// Peers returns where the connected queue pairs' packets go.
func (d *Device) Peers() map[uint32]qp.Endpoint {
	peers := make(map[uint32]qp.Endpoint)
	d.locked(func(l *lane) {
		for n, q := range l.qps {
			if q.Attr.Path.Dst.IsValid() {
				peers[n] = q.Attr.Path.Dst
			}
		}
	})
	return peers
}
