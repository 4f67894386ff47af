package coll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"softrdma/msg"
	"softrdma/verbs"
)

// A Config says which member of which group a worker is.
type Config struct {
	// Rank is the member's number, from 0.
	Rank int

	// Addresses are those of the workers of all members, by rank. The worker's own is not used.
	Addresses [][]byte

	// ID distinguishes groups that New makes of the same worker, up to MaxID. All members of a
	// group have the same.
	ID int

	// Device is the worker's device. With it, the package's own memory is registered, so that
	// members on the same host copy from it without a system call. Without it everything works,
	// a little slower where members do not map each other's memory.
	Device *verbs.Device

	// Connect lets New connect to all members. Otherwise members connect when a call first needs
	// it.
	Connect bool
}

// A Group is a set of members that call collective operations together. Its functions may be
// called from any goroutine, one at a time.
type Group struct {
	mesh    *mesh
	id      groupID
	rank    int
	members []int       // rank in the first group, by rank
	ranks   map[int]int // the reverse
	first   bool        // made by New

	context   context.Context // until the group fails
	cancel    context.CancelCauseFunc
	algorithm [operations]Algorithm
	call      call
	informed  []atomic.Bool // who has sent a notice, by rank
	mapping   *mapping      // of the call that runs; nil before one has needed it
	unmapped  atomic.Bool   // members have no views of each other's memory

	mu    sync.Mutex
	err   error        // *MemberError or ErrClosed
	left  bool         // it was closed without having failed; does not change any more
	calls uint64       // that have begun
	used  bool         // there is a mapping
	after func() error // closes what World has opened
}

// New makes the group of workers with some addresses. All members call New, in any order; it does
// not wait for them, except with Config.Connect. The worker has msg.ProgressPackage, and stays the
// caller's, who closes the group before the worker.
func New(ctx context.Context, w *msg.Worker, c Config) (*Group, error) {
	n := len(c.Addresses)
	switch {
	case n < 1 || n > MaxMembers:
		return nil, fmt.Errorf("coll: %d addresses, expected 1 to %d", n, MaxMembers)
	case c.Rank < 0 || c.Rank >= n:
		return nil, fmt.Errorf("coll: rank %d, expected 0 to %d", c.Rank, n-1)
	case c.ID < 0 || c.ID > MaxID:
		return nil, fmt.Errorf("coll: ID is %d, expected 0 to %d", c.ID, MaxID)
	}
	members := make([]int, n)
	for i := range members {
		members[i] = i
	}
	g := newGroup(newMesh(w, &c), 0, members)
	g.first = true
	if c.Connect {
		for i := range n - 1 { // each begins with another one
			r := (c.Rank + 1 + i) % n
			if _, err := g.mesh.link(ctx, r); err != nil {
				g.fail(g.lost(r, err))
				e := g.Err()
				_ = g.Close(ctx) // the first error counts
				return nil, e
			}
		}
	}
	return g, nil
}

// newGroup makes the group of members, one of which is this one.
func newGroup(m *mesh, id groupID, members []int) *Group {
	g := &Group{mesh: m, id: id, members: members, ranks: map[int]int{}, informed: make([]atomic.Bool, len(members))}
	for r, member := range members {
		g.ranks[member] = r
	}
	g.rank = g.ranks[m.rank]
	g.call.g = g
	g.context, g.cancel = context.WithCancelCause(context.Background())
	m.add(g)
	return g
}

// Rank returns the member's number in the group, from 0.
func (g *Group) Rank() int { return g.rank }

// Size returns the number of members.
func (g *Group) Size() int { return len(g.members) }

// Err returns nil while the group works, and then a *MemberError, or ErrClosed after Close.
func (g *Group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Failed returns a channel that is closed when the group has failed or was closed.
func (g *Group) Failed() <-chan struct{} { return g.context.Done() }

// Abort makes the group fail at all members, with an error that names this member, matches
// ErrAborted and has the text of err.
func (g *Group) Abort(err error) {
	g.fail(&MemberError{g.rank, fmt.Errorf("%w: %w", ErrAborted, err)})
}

// fail ends the group's calls, and tells the other members. The first failure counts.
func (g *Group) fail(e *MemberError) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return
	}
	g.err = e
	g.cancel(e)
	g.mesh.telling.Add(1)
	go func() {
		defer g.mesh.telling.Done()
		g.tell(e)
	}()
}

// notified fails the group, because another member says so.
func (g *Group) notified(text []byte, from int) {
	if r, is := g.ranks[from]; is {
		g.informed[r].Store(true)
		g.fail(parseNotice(text, g.Size(), r))
	}
}

// tell sends a notice to all members that have sent none. It connects to those that are not
// connected, because they may wait for members that end. It tries for a short time to reach the one that
// is said to be gone: that may be wrong, and others may have closed their groups when it calls them.
func (g *Group) tell(e *MemberError) {
	m := g.mesh
	text := notice(e)
	ctx, cancel := context.WithTimeout(m.context, connectTimeout)
	defer cancel()
	var all sync.WaitGroup
	for r, member := range g.members {
		l := &m.links[member]
		if r == g.rank || l.left.Load() || l.failed.Load() {
			continue
		}
		all.Go(func() {
			if g.informed[r].Load() {
				return
			}
			ctx := ctx
			if r == e.Rank && errors.Is(e.Err, ErrGone) {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, noticeTimeout)
				defer cancel()
			}
			if to, err := m.link(ctx, member); err == nil {
				_, _ = to.Send(m.tag(m.rank, g.id, 0, whatNotice)|tagControl, msg.Buffers{text}, nil).Wait(ctx) // a failure is noticed elsewhere
			}
		})
	}
	all.Wait()
}

// lost returns the error about a member with which messages have failed.
func (g *Group) lost(rank int, err error) *MemberError {
	if errors.Is(err, msg.ErrClosed) || errors.Is(err, verbs.ErrClosed) {
		rank = g.rank // the worker or its device has closed
	}
	return &MemberError{rank, fmt.Errorf("%w: %w", ErrGone, err)}
}

// Close ends the member's part in the group. All members of the first group call Close of that
// before they end: it waits until all have called it, unless the group has failed or ctx ends. Groups
// that Split has made are closed by the first, or earlier without waiting. Calls of other members on a
// group of Split that a member has closed can last until their contexts end. A second Close returns
// ErrClosed.
func (g *Group) Close(ctx context.Context) error {
	var err error
	if g.first && g.Err() == nil {
		if err = Barrier(ctx, g); errors.Is(err, ErrBusy) {
			return err
		}
	}
	g.mu.Lock()
	if g.err == ErrClosed {
		g.mu.Unlock()
		return ErrClosed
	}
	failed := g.err != nil
	g.err, g.left = ErrClosed, !failed
	g.cancel(ErrClosed)
	idle := len(g.call.running) == 0
	if !idle {
		g.mesh.pool.hold()
	}
	g.mu.Unlock()
	if idle { // else the call does it
		g.release()
	}
	if !g.first {
		g.mesh.remove(g)
		return nil
	}
	for _, other := range g.mesh.others(g) {
		_ = other.Close(ctx) // only removes it
	}
	if e := g.mesh.close(ctx, failed); err == nil {
		err = e
	}
	if g.after != nil {
		if e := g.after(); err == nil {
			err = e
		}
	}
	return err
}

// A place is what a member tells the others in Split.
type place struct {
	Color, Key int64
	Number     uint32
	_          uint32
}

// Split makes groups of the members that have the same color, in the order of their keys, and of
// their ranks if the keys are equal. It returns this member's group, which is nil if its color is
// negative.
func (g *Group) Split(ctx context.Context, color, key int) (*Group, error) {
	m := g.mesh
	own := []place{{Color: int64(color), Key: int64(key)}}
	if g.rank == 0 {
		m.mu.Lock()
		m.number++
		own[0].Number = m.number
		m.mu.Unlock()
	}
	all := make([]place, g.Size())
	if err := AllGather(ctx, g, all, own); err != nil {
		return nil, err
	}
	if all[0].Number >= maxNumbers {
		return nil, fmt.Errorf("coll: rank 0 has made %d groups, expected less", maxNumbers)
	}
	if color < 0 {
		return nil, nil
	}
	var order []int
	for r, p := range all {
		if p.Color == int64(color) {
			order = append(order, r)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[a].Key, all[b].Key) })
	members := make([]int, len(order))
	for i, r := range order {
		members[i] = g.members[r]
	}
	n := newGroup(m, newGroupID(g.members[0], all[0].Number), members)
	n.algorithm = g.algorithm
	return n, nil
}
