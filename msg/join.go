package msg

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"softrdma/internal/message"
	"softrdma/msg/internal/format"
	"softrdma/rdmacm"
)

// connectRails makes an endpoint of several rails. It works if one of them can be connected.
func (w *Worker) connectRails(ctx context.Context, a *format.Address, pairs []format.Pair) (*Endpoint, error) {
	j := format.Joining{Pairs: pairs, New: true, Connection: 1}
	var g *group
	var first error
	for i := range pairs {
		if j.Rail = i; j.New {
			_, _ = rand.Read(j.Token[:]) // never fails
		}
		joined, err := w.connectRail(ctx, a, &j)
		if err == nil {
			g, j.New = joined, false
			continue
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil || errors.Is(err, ErrStale) || errors.Is(err, ErrVersion) || errors.Is(err, ErrClosed) {
			break
		}
	}
	if g == nil {
		return nil, first
	}
	w.e.Lock()
	defer w.unlock()
	if g.c.err != nil {
		return nil, g.c.err
	}
	g.to = a // from now on this end connects rails again
	g.context, g.stop = context.WithCancel(w.context)
	for i := range pairs {
		if !g.rails.Up(i) {
			g.rails.Fail(i, 1)
			g.repair(i)
		}
	}
	w.e.Flush()
	return &g.c.endpoint, nil
}

// connectRail makes the connection of one rail.
func (w *Worker) connectRail(ctx context.Context, a *format.Address, j *format.Joining) (*group, error) {
	p := j.Pairs[j.Rail]
	to := a.Rails[p.Peer]
	request := format.Greeting{Hello: format.Hello{Worker: a.Worker, Accepts: w.address.Accepts}, How: format.ToGroup, Private: j.Bytes()}
	ctx, cancel := context.WithTimeout(ctx, w.config.PeerTimeout) // the other rails need not wait for longer
	defer cancel()
	c, err := w.dial(ctx, w.rails[p.Own], to.Listener.String(), to.UDP, request, message.RailLen)
	g, err := w.join(c, j, err)
	return g, format.Refusal(err, a, p.Peer)
}

// admitRail accepts the connection of one rail.
func (w *Worker) admitRail(on *rail, r *rdmacm.Request, from format.Greeting) error {
	j, err := format.ParseJoining(from.Private, len(w.rails))
	switch {
	case err != nil:
		return err
	case w.rails[j.Pairs[j.Rail].Own] != on:
		return fmt.Errorf("%w: request for device %d at the address of another", ErrAddress, j.Pairs[j.Rail].Own)
	case !w.expect(&j, from.Accepts):
		return fmt.Errorf("%w: request for a rail that nobody expects", ErrStale)
	}
	c, err := w.accepted(w.context, on, r, from, nil, message.RailLen)
	_, err = w.join(c, &j, err)
	w.e.Lock()
	defer w.unlock()
	if g := w.groups[j.Token]; g != nil {
		g.admitted(&j, err)
	}
	return err
}

// expect prepares for the connection of a rail, and reports whether it can join its group. A new group is
// there before the first connection, because the client may ask for the second earlier. A client that
// connects a rail again has noticed before that it had failed. The caller calls admitted afterwards.
func (w *Worker) expect(j *format.Joining, takes message.Config) bool {
	w.e.Lock()
	defer w.unlock()
	g := w.groups[j.Token]
	if j.New == (g != nil) || w.closed {
		return false
	}
	if j.New {
		w.newGroup(j.Token, j.Pairs, 0, takes)
		j.New = false
	} else if slices.Equal(g.pairs, j.Pairs) {
		g.down(j.Rail, j.Connection-1)
		w.e.Flush()
	}
	if !w.expects(j) {
		return false
	}
	w.groups[j.Token].expected++
	return true
}

// expects reports whether a rail can join its group. The caller holds the lock.
func (w *Worker) expects(j *format.Joining) bool {
	g := w.groups[j.Token]
	if g == nil || j.New {
		return g == nil && j.New
	}
	return slices.Equal(g.pairs, j.Pairs) && !g.rails.Up(j.Rail) && j.Connection > g.rails.Failed(j.Rail)
}

// admitted ends what expect began. A group with no rail that works ends with the last that was
// expected. The caller holds the worker's lock.
func (g *group) admitted(j *format.Joining, err error) {
	if g.expected--; err != nil && !g.rails.Up(j.Rail) {
		g.rails.Fail(j.Rail, j.Connection)
	}
	if g.carrier() == nil && g.expected == 0 {
		g.c.fail(cmp.Or(g.failed, ErrClosed))
	}
	g.c.w.e.Flush()
}

// join makes a connection that was made a member of its group, or releases it after an error.
func (w *Worker) join(c *connection, j *format.Joining, err error) (*group, error) {
	if err == nil {
		var g *group
		if g, err = w.member(c, j); err == nil {
			return g, nil
		}
	}
	_, err = w.begin(c, err)
	return nil, err
}

// member makes a connection a member of its group.
func (w *Worker) member(c *connection, j *format.Joining) (*group, error) {
	w.e.Lock()
	defer w.unlock()
	switch {
	case w.closed:
		return nil, ErrClosed
	case c.rail.on.Gone.Load() || !w.expects(j):
		return nil, fmt.Errorf("%w: the endpoint or its device has ended", ErrStale)
	}
	g := w.groups[j.Token]
	if g == nil {
		g = w.newGroup(j.Token, j.Pairs, c.worker, c.takes)
	}
	if g.c.CM == nil {
		g.c.CM = c.CM // for its address
	}
	c.group, c.pair, c.pipeline.Device, c.peer = g, j.Rail, j.Pairs[j.Rail].Peer, g.c.peer
	c.generation = j.Connection
	if g.members[j.Rail] = c; j.Connection > 1 {
		g.restored++
	}
	g.rails.Join(j.Rail, j.Connection)
	c.serve()
	g.settle()
	g.wakeAll()
	w.e.Flush()
	return g, nil
}
