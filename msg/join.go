package msg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"softrdma/internal/message"
	"softrdma/rdmacm"
	"softrdma/verbs"
)

// pairs returns the devices of this worker and of another that an endpoint connects: each with one of
// the same protocol.
func (w *Worker) pairs(a *address) (list []pair) {
	own, peers := map[verbs.Protocol][]int{}, map[verbs.Protocol][]int{}
	for i, r := range w.rails {
		p := r.dev.Protocol()
		own[p] = append(own[p], i)
	}
	for i, r := range a.rails {
		peers[r.protocol] = append(peers[r.protocol], i)
	}
	for i, r := range w.rails {
		p := r.dev.Protocol()
		from, to := own[p], peers[p]
		if len(to) == 0 || from[0] != i {
			continue
		}
		for k := range max(len(from), len(to)) {
			list = append(list, pair{from[k%len(from)], to[k%len(to)]})
		}
	}
	return list[:min(len(list), message.MaxRails)]
}

// A joining says which rail of which group a request is for. It is the private data of the request.
//
//	token (8 bytes) | rail (1) | bit 7: the group is new; number of rails (1)
//	for each rail the devices of the client and the server (4 bits each)
type joining struct {
	token groupToken
	rail  int
	new   bool
	pairs []pair // of the client
}

func (j *joining) bytes() []byte {
	n := byte(len(j.pairs))
	if j.new {
		n |= 1 << 7
	}
	b := append(j.token[:], byte(j.rail), n)
	for _, p := range j.pairs {
		b = append(b, byte(p.own<<4|p.peer))
	}
	return b
}

// parseJoining reads the private data of a request to a worker with a number of devices. The pairs are
// those of the server.
func parseJoining(b []byte, devices int) (j joining, err error) {
	if len(b) < 10 || len(b) != 10+int(b[9]&0x7f) || len(b) > 10+message.MaxRails || int(b[8]) >= len(b)-10 {
		return j, fmt.Errorf("%w: %d bytes about rails", ErrAddress, len(b))
	}
	j = joining{token: groupToken(b), rail: int(b[8]), new: b[9]>>7 != 0}
	for _, x := range b[10:] {
		p := pair{own: int(x & 15), peer: int(x >> 4)}
		if p.own >= devices || p.peer >= message.MaxRails {
			return j, fmt.Errorf("%w: rail of devices %d and %d, this worker has %d", ErrAddress, p.own, p.peer, devices)
		}
		j.pairs = append(j.pairs, p)
	}
	return j, nil
}

// connectRails makes an endpoint of several rails. It works if one of them can be connected.
func (w *Worker) connectRails(ctx context.Context, a *address, pairs []pair) (*Endpoint, error) {
	j := joining{pairs: pairs, new: true}
	var g *group
	var first error
	for i := range pairs {
		if j.rail = i; j.new {
			_, _ = rand.Read(j.token[:]) // never fails
		}
		joined, err := w.connectRail(ctx, a, &j)
		if err == nil {
			g, j.new = joined, false
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
	w.mu.Lock()
	defer w.unlock()
	for i, m := range g.members {
		if m == nil {
			g.rails.Fail(i)
		}
	}
	w.flush()
	return &g.c.endpoint, nil
}

// connectRail makes the connection of one rail.
func (w *Worker) connectRail(ctx context.Context, a *address, j *joining) (*group, error) {
	p := j.pairs[j.rail]
	to := a.rails[p.peer]
	request := greeting{hello: hello{a.worker, w.address.accepts}, how: toGroup, private: j.bytes()}
	ctx, cancel := context.WithTimeout(ctx, w.config.PeerTimeout) // the other rails need not wait for longer
	defer cancel()
	c, err := w.dial(ctx, w.rails[p.own], to.listener.String(), to.udp, request, message.RailLen)
	g, err := w.join(c, j, err)
	return g, refusal(err, a, p.peer)
}

// admitRail accepts the connection of one rail.
func (w *Worker) admitRail(on *rail, r *rdmacm.Request, from greeting) error {
	j, err := parseJoining(from.private, len(w.rails))
	switch {
	case err != nil:
		return err
	case w.rails[j.pairs[j.rail].own] != on:
		return fmt.Errorf("%w: request for device %d at the address of another", ErrAddress, j.pairs[j.rail].own)
	case !w.expect(&j, from.accepts):
		return fmt.Errorf("%w: request for a rail that nobody expects", ErrStale)
	}
	c, err := w.accepted(w.context, on, r, from, nil, message.RailLen)
	if _, err = w.join(c, &j, err); err != nil {
		w.giveUp(&j)
	}
	return err
}

// expect prepares for the connection of a rail, and reports whether it can join its group. A new group is
// there before the first connection, because the client may ask for the second earlier.
func (w *Worker) expect(j *joining, takes message.Config) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if g := w.groups[j.token]; j.new == (g != nil) || w.closed {
		return false
	}
	if j.new {
		w.newGroup(j.token, j.pairs, 0, takes)
		j.new = false
	}
	return w.expects(j)
}

// expects reports whether a rail can join its group. The caller holds the lock.
func (w *Worker) expects(j *joining) bool {
	g := w.groups[j.token]
	if g == nil || j.new {
		return g == nil && j.new
	}
	return slices.Equal(g.pairs, j.pairs) && g.members[j.rail] == nil && !g.rails.Down(j.rail)
}

// giveUp says that a rail that was expected does not come.
func (w *Worker) giveUp(j *joining) {
	w.mu.Lock()
	defer w.unlock()
	if g := w.groups[j.token]; g != nil && g.members[j.rail] == nil {
		if g.rails.Fail(j.rail); g.carrier() == nil {
			g.c.fail(ErrClosed)
		}
		w.flush()
	}
}

// join makes a connection that was made a member of its group, or releases it after an error.
func (w *Worker) join(c *connection, j *joining, err error) (*group, error) {
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
func (w *Worker) member(c *connection, j *joining) (*group, error) {
	w.mu.Lock()
	defer w.unlock()
	switch {
	case w.closed:
		return nil, ErrClosed
	case c.rail.gone || !w.expects(j):
		return nil, fmt.Errorf("%w: the endpoint or its device has ended", ErrStale)
	}
	g := w.groups[j.token]
	if g == nil {
		g = w.newGroup(j.token, j.pairs, c.worker, c.takes)
	}
	if g.c.conn == nil {
		g.c.conn = c.conn // for its address
	}
	c.group, c.pair, c.remote, c.peer = g, j.rail, j.pairs[j.rail].peer, g.c.peer
	g.members[j.rail] = c
	g.rails.Join(j.rail)
	c.serve()
	return g, nil
}
