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
	l.dev.remember(p)
	if p.Attr.State != qp.Err || why.Reason == reason.None {
		return
	}
	l.dev.pairs.Fail(p.QPN, why)
	if f := l.dev.failed.Load(); f != nil {
		(*f)(p.QPN, why)
	}
}

// remember notes what another process has to know of a queue pair, also when this one has ended.
func (a *laneList) remember(p *machine.Port) {
	shared := a.record != nil && p.Type != qp.UD
	switch {
	case p.Attr.State == qp.Reset:
		a.pairs.Forget(p.QPN)
	case p.Attr.State == qp.Init && shared:
		a.pairs.Add(p.QPN)
	case p.Attr.State == qp.RTR && shared:
		if dst := p.Attr.Path.Dst; dst.IsValid() {
			a.pairs.Connect(p.QPN, qp.OnWire(dst).Addr())
		}
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

// Records returns the flight recorder: the last records of all lanes and the last refusals.
func (d *Device) Records() *recorder.Snapshot {
	s := &recorder.Snapshot{Peers: d.pairs.Peers()}
	s.Made = d.refusals.Made() // before Records, so that no refusal counts as saved that is not
	s.Records, s.Lost = d.refusals.Records()
	d.locked(func(l *lane) {
		of, n := l.recorder.Records()
		s.Records, s.Lost, s.Made = append(s.Records, of...), s.Lost+n, s.Made+l.recorder.Made()
		for n, q := range l.qps {
			if dst := q.Attr.Path.Dst; dst.IsValid() {
				s.Peers[n] = qp.OnWire(dst).Addr()
			}
		}
	})
	s.Records = recorder.Merge(s.Records)
	s.Zero = time.Now().Add(-d.clock())
	return s
}

// RecordsSaved notes that the first n records that were made are in files.
func (a *laneList) RecordsSaved(n uint64) {
	if m := a.record; m != nil {
		m.Saved(n)
	}
}

// Left notes that the device's process does not need the device any more: if it ends now, that is no
// failure.
func (a *laneList) Left() {
	if m := a.record; m != nil {
		m.Leave()
	}
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
