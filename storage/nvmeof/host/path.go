package host

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync/atomic"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/identify"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/status"
)

// A path is a namespace at a controller.
type path struct {
	ns *Namespace
	c  *Controller
	at atomic.Pointer[place]
}

// A place is what a link knows of a path.
type place struct {
	l     *link
	group uint32
}

// newNamespace looks at a namespace at all controllers that are connected, and makes its paths.
func newNamespace(ctx context.Context, controllers []*Controller, id uint32) (*Namespace, error) {
	n := &Namespace{id: id}
	var errs []error
	for _, c := range controllers {
		p := &path{ns: n, c: c}
		n.paths = append(n.paths, p)
		l, err := c.live()
		if err == nil {
			err = p.attach(ctx, l)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	if n.most == 0 { // no controller has it
		return nil, errors.Join(errs...)
	}
	for _, p := range n.paths {
		p.c.mu.Lock()
		p.c.namespaces = append(p.c.namespaces, p)
		l := p.c.current
		p.c.mu.Unlock()
		// The controller may have another link meanwhile, which perhaps did not see the new path.
		if l != nil && p.place(l) == nil {
			_ = p.attach(ctx, l) // the link says why
		}
	}
	return n, nil
}

// attach looks at the namespace at a link. The first link that has it says what it is.
func (p *path) attach(ctx context.Context, l *link) error {
	n := p.ns
	b := make([]byte, identify.Len)
	if err := l.identify(ctx, identify.CNSNamespace, n.id, b); err != nil {
		return err
	}
	about, err := identify.ParseNamespace(b)
	if err != nil {
		return err
	}
	if about.Blocks == 0 {
		p.at.Store(nil)
		return fmt.Errorf("%s has no namespace %d", p.c.cfg.Subsystem, n.id)
	}
	clear(b)
	if err := l.identify(ctx, identify.CNSDescriptors, n.id, b); err != nil {
		var failed *status.Error
		if !errors.As(err, &failed) { // controllers before version 1.3 do not have the list
			return err
		}
	}
	names, err := identify.ParseDescriptors(b)
	if err != nil {
		return err
	}
	if names.NGUID == [16]byte{} {
		names.NGUID = about.NGUID
	}
	if names.EUI64 == [8]byte{} {
		names.EUI64 = about.EUI64
	}
	if err := n.same(about, names, limitOf(l)); err != nil {
		p.at.Store(nil)
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return errNamespaceClosed
	}
	p.at.Store(&place{l, about.ANAGroup})
	return nil
}

// errNamespaceClosed is why commands fail of a namespace that the program has closed.
var errNamespaceClosed = errors.New("the program has closed the namespace")

// Close says that the program does not use the namespace any more. Commands that wait for a connection or that
// follow fail, and those that a controller has end by themselves: each call still returns, and Request.Done is
// called. Controllers of programs that open namespaces again and again need it; Controller.Close and
// Subsystem.Close close all namespaces. Close does not wait, and its error is nil.
func (n *Namespace) Close() error {
	n.mu.Lock()
	n.closed = true
	for _, p := range n.paths {
		p.at.Store(nil)
	}
	n.mu.Unlock()
	for _, p := range n.paths {
		p.c.mu.Lock()
		p.c.namespaces = slices.DeleteFunc(p.c.namespaces, func(x *path) bool { return x == p })
		p.c.mu.Unlock()
	}
	n.kick()
	return nil
}

// limitOf returns how many bytes a command may move.
func limitOf(l *link) int {
	if shift := int(l.about.MaxTransfer); shift > 0 && shift < bits.Len(directBytes)-13 {
		return 4096 << shift
	}
	return directBytes
}

// same checks that a namespace at another controller, or after another connection, is the same one.
func (n *Namespace) same(about identify.Namespace, names identify.Descriptors, most int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.most == 0 {
		if size := 1 << about.BlockShift; size > min(most, slotBytes) {
			return fmt.Errorf("namespace %d: expected blocks of at most %d bytes, found %d", n.id, min(most, slotBytes), size)
		}
		n.about, n.names, n.most = about, names, most
		return nil
	}
	switch {
	case names.UUID != n.names.UUID || names.NGUID != n.names.NGUID || names.EUI64 != n.names.EUI64:
		return fmt.Errorf("namespace %d: expected identifiers %s, found %s", n.id, describe(n.names), describe(names))
	case about.BlockShift != n.about.BlockShift:
		return fmt.Errorf("namespace %d: expected blocks of %d bytes, found %d", n.id, 1<<n.about.BlockShift, 1<<about.BlockShift)
	case about.Blocks < n.about.Blocks:
		return fmt.Errorf("namespace %d: expected at least %d blocks, found %d", n.id, n.about.Blocks, about.Blocks)
	case most < n.most:
		return fmt.Errorf("namespace %d: expected transfers of at least %d bytes, found %d", n.id, n.most, most)
	}
	return nil
}

func describe(d identify.Descriptors) string {
	return fmt.Sprintf("UUID %x, NGUID %x, EUI64 %x", d.UUID, d.NGUID, d.EUI64)
}

// place returns what is known of the path at a link, nil if it cannot be used there.
func (p *path) place(l *link) *place {
	if at := p.at.Load(); at != nil && at.l == l {
		return at
	}
	return nil
}

// state returns the state of the path at a link.
func (at *place) state() logpage.ANAState {
	states := at.l.ana.Load()
	if states == nil {
		return logpage.ANAOptimized
	}
	return (*states)[at.group]
}

// pending takes the path from use until the link has read the states again.
func (at *place) pending() {
	if old := at.l.ana.Load(); old != nil {
		states := make(map[uint32]logpage.ANAState, len(*old))
		for id, state := range *old {
			states[id] = state
		}
		states[at.group] = logpage.ANAStateChanging
		at.l.ana.CompareAndSwap(old, &states)
	}
	at.l.change()
}

// choose returns the link for a command, nil if there is none. It prefers paths that are optimized, and
// takes equal ones in turn.
func (n *Namespace) choose(avoid *Controller) *link {
	if len(n.paths) == 1 {
		p := n.paths[0]
		if l := p.c.link.Load(); l != nil {
			if at := p.place(l); at != nil && usable(at.state()) {
				return l
			}
		}
		return nil
	}
	first := int(n.next.Add(1))
	var best *link
	rank := 0
	for i := range n.paths {
		p := n.paths[(first+i)%len(n.paths)]
		l := p.c.link.Load()
		if l == nil {
			continue
		}
		at := p.place(l)
		if at == nil {
			continue
		}
		state, here := at.state(), 0
		if usable(state) {
			here = 2
		}
		if state == logpage.ANAOptimized {
			here += 2
		}
		if here > 0 && p.c == avoid {
			here = 1
		}
		if here > rank {
			best, rank = l, here
		}
	}
	return best
}

func usable(s logpage.ANAState) bool {
	return s == logpage.ANAOptimized || s == logpage.ANANonOptimized
}

// hope reports whether a command should wait for a path, and if not, why there will be none. The lock is held.
func (n *Namespace) hope() (bool, error) {
	if n.closed {
		return false, errNamespaceClosed
	}
	var errs []error
	for _, p := range n.paths {
		wait, err := p.c.hope()
		l := p.c.link.Load()
		switch {
		case !wait:
			errs = append(errs, err)
			continue
		case l == nil:
			return true, nil
		}
		at := p.place(l)
		switch {
		case at == nil:
			errs = append(errs, fmt.Errorf("%s: namespace %d is not usable there", p.c.addr, n.id))
		case at.state() == logpage.ANALost:
			errs = append(errs, fmt.Errorf("%s: %w", p.c.addr, &status.Error{Status: status.ANAPersistentLoss}))
		default:
			return true, nil
		}
	}
	return false, errors.Join(errs...)
}

// start sends a command by one of the paths, or lets it wait for one.
func (n *Namespace) start(c *command) {
	l := n.choose(c.avoid)
	if l == nil {
		var err error
		if l, err = n.wait(c); err != nil {
			c.end(err)
			return
		}
		if l == nil {
			return
		}
	}
	q := l.io[0]
	if len(l.io) > 1 {
		q = l.io[int(l.next.Add(1))%len(l.io)]
	}
	q.start(c)
}

// wait puts a command into the list of those that wait for a path, unless there is one now.
func (n *Namespace) wait(c *command) (*link, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.choose(c.avoid); l != nil {
		return l, nil
	}
	if wait, err := n.hope(); !wait {
		return nil, err
	}
	n.waiting = append(n.waiting, c)
	return nil, nil
}

// forget takes a command that has ended out of the list of those that wait for a path.
func (n *Namespace) forget(c *command) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting = slices.DeleteFunc(n.waiting, func(x *command) bool { return x == c })
}

// kick starts the commands that wait for a path. It is called after every change that can give them
// one, or end their hope for one.
func (n *Namespace) kick() {
	n.mu.Lock()
	list := n.waiting
	n.waiting = nil
	n.mu.Unlock()
	for _, c := range list {
		c.mu.Lock()
		here := c.state == waiting
		c.mu.Unlock()
		if here {
			n.start(c)
		}
	}
}

// repeats reports whether a command that has failed with a status at a link is to be repeated. Its
// lock is held.
func (n *Namespace) repeats(c *command, l *link, s status.Status) bool {
	switch code := s.Code(); {
	case code == status.ANAInaccessible || code == status.ANATransition || code == status.ANAPersistentLoss:
		// Another path, or this one in another state.
		for _, p := range n.paths {
			if at := p.place(l); at != nil {
				at.pending()
			}
		}
		return true
	case s&status.DoNotRetry != 0 && code>>8 != statusTypePath || c.repeats >= l.c.cfg.Repeats:
		return false
	}
	c.repeats++
	c.avoid = l.c
	return true
}

// statusTypePath is the type of statuses of the path.
const statusTypePath = 3

// command returns a command for blocks.
func (n *Namespace) command(o capsule.Opcode, off, length int64) capsule.Command {
	cmd := capsule.Command{Opcode: o, NSID: n.id, CDW12: uint32(length>>n.about.BlockShift) - 1}
	cmd.SetLBA(uint64(off) >> n.about.BlockShift)
	return cmd
}
