package coll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"softrdma/msg"
)

// connectTimeout bounds the connection to a member, leaveTimeout the wait for members that do not
// answer when this one leaves, and noticeTimeout the same when its group has failed, or when messages of
// another one that has failed are left, and the attempt to tell a member that it is taken for gone.
// TellTimeout bounds the time in which Close sends notices.
const (
	connectTimeout = 20 * time.Second
	leaveTimeout   = 10 * time.Second
	noticeTimeout  = time.Second
	tellTimeout    = 5 * time.Second
)

// A mesh is the member's connections to the members of the first group, which all groups that
// Split makes of it share.
//
// Each link has a watch: a synchronous message that the peer does not receive until it closes its
// group. The watch ends with success when the peer leaves, and with an error when it fails.
type mesh struct {
	w         *msg.Worker
	id        uint64
	rank      int
	addresses [][]byte
	links     []link
	pool      pool
	context   context.Context // of connections that no call waits for
	stop      context.CancelFunc
	telling   sync.WaitGroup
	buffer    [3 + maxText]byte // of the receive of control messages

	mu      sync.Mutex
	control *msg.Request
	groups  map[groupID]*Group
	early   map[groupID]early // of groups that Split has not made yet, or that were closed
	number  uint32            // of the last group that this member numbered
	closing bool

	unreceived atomic.Bool // a call has failed that had sent messages

	seen chan struct{} // gets a token for each whatSeen
}

// A link is the connection to a member.
type link struct {
	turn     chan struct{} // one token; who has it connects
	endpoint atomic.Pointer[msg.Endpoint]
	watch    *msg.Request  // set before endpoint
	left     atomic.Bool   // the member has closed its group; everything that it sent has arrived
	failed   atomic.Bool   // the connection has failed
	informed atomic.Bool   // the member has sent a notice
	ended    chan struct{} // closed after left or failed was set
}

// early is a notice for a group that the member does not have.
type early struct {
	text []byte
	from int
}

// maxEarly bounds the early notices that a member keeps.
const maxEarly = 1024

func newMesh(w *msg.Worker, c *Config) *mesh {
	m := &mesh{w: w, id: uint64(c.ID), rank: c.Rank, addresses: c.Addresses, groups: map[groupID]*Group{}, early: map[groupID]early{}}
	m.pool.device, m.pool.worker = c.Device, w
	m.context, m.stop = context.WithCancel(context.Background())
	m.seen = make(chan struct{}, len(c.Addresses))
	m.links = make([]link, len(c.Addresses))
	for i := range m.links {
		m.links[i].turn, m.links[i].ended = make(chan struct{}, 1), make(chan struct{})
	}
	m.listen()
	return m
}

// listen receives the next control message that is no watch.
func (m *mesh) listen() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.context.Err() != nil {
		return
	}
	m.control = m.w.Receive(msg.Buffers{m.buffer[:]}, tagPackage|tagControl|m.id<<shiftID, tagPackage|tagControl|MaxID<<shiftID|whatWatch)
	go m.await(m.control)
}

// await handles a control message.
func (m *mesh) await(r *msg.Request) {
	<-r.Done()
	i, err := r.Wait(m.context)
	if err != nil && !errors.Is(err, msg.ErrTruncated) {
		return // canceled, or the worker has closed
	}
	from := sender(i.Tag)
	switch what := i.Tag & whatMask; {
	case from >= len(m.links):
	case what == whatNotice:
		m.links[from].informed.Store(true)
		m.notified(group(i.Tag), bytes.Clone(m.buffer[:min(i.Length, len(m.buffer))]), from)
	case what == whatSeen:
		select {
		case m.seen <- struct{}{}:
		default: // more than one of a member
		}
	}
	m.listen()
}

// notified handles a notice.
func (m *mesh) notified(id groupID, text []byte, from int) {
	m.mu.Lock()
	g := m.groups[id]
	if g == nil && len(m.early) < maxEarly {
		m.early[id] = early{text, from}
	}
	m.mu.Unlock()
	if g != nil {
		g.notified(text, from)
	}
}

// link returns the endpoint to a member, and connects if there is none.
func (m *mesh) link(ctx context.Context, rank int) (*msg.Endpoint, error) {
	l := &m.links[rank]
	if e := l.endpoint.Load(); e != nil {
		return e, nil
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if e := l.endpoint.Load(); e != nil {
		return e, nil
	}
	limit, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	e, err := m.w.Connect(limit, m.addresses[rank])
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: no connection: %w", ErrGone, err)
	}
	l.watch = e.Send(m.tag(m.rank, 0, 0, whatWatch)|tagControl, nil, &msg.SendOptions{Sync: true})
	l.endpoint.Store(e)
	l.watch.Then(func(_ msg.Info, err error) { go m.watched(rank, err) })
	return e, nil
}

// lost returns the error of a link that has failed. It has no message to send or receive, so it knows also
// that the worker of this member has closed.
func (l *link) lost() error {
	select {
	case <-l.watch.Done():
		_, err := l.watch.Wait(context.Background()) // it has ended
		return err
	default:
		return nil
	}
}

// watched handles the end of a watch.
func (m *mesh) watched(rank int, err error) {
	l := &m.links[rank]
	if err == nil {
		l.left.Store(true)
	} else {
		l.failed.Store(true)
	}
	close(l.ended)
	m.ended(rank, err)
}

// unreachable fails the groups of a member that does not answer.
func (m *mesh) unreachable(rank int, err error) {
	if m.context.Err() == nil {
		m.ended(rank, err)
	}
}

// ended ends what the groups of a member expect from it: it has left, or failed if err is not nil.
func (m *mesh) ended(rank int, err error) {
	m.mu.Lock()
	groups, closing := slices.Collect(maps.Values(m.groups)), m.closing
	m.mu.Unlock()
	for _, g := range groups {
		r, is := g.ranks[rank]
		switch {
		case !is:
		case err == nil:
			g.cancelFrom(r)
		case !closing:
			g.fail(g.lost(r, err))
		}
	}
}

// add makes a group known. A failure that was noticed before fails it.
func (m *mesh) add(g *Group) {
	m.mu.Lock()
	m.groups[g.id] = g
	e, notified := m.early[g.id]
	delete(m.early, g.id)
	m.mu.Unlock()
	if notified {
		g.notified(e.text, e.from)
	}
	for r, member := range g.members {
		if m.links[member].failed.Load() {
			g.fail(&MemberError{r, ErrGone})
		}
	}
}

func (m *mesh) remove(g *Group) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.groups, g.id)
}

// others returns the groups besides g.
func (m *mesh) others(g *Group) []*Group {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := slices.Collect(maps.Values(m.groups))
	return slices.DeleteFunc(all, func(x *Group) bool { return x == g })
}
