//go:build linux

package ucm

import (
	"encoding/binary"
	"fmt"
	"math"
	"syscall"

	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/wire/uapi"
)

// getEvent returns the program's next event. If there is none, the library waits for
// the file to become readable and asks again.
func (m *channel) getEvent(c *command) error {
	q, _ := uapi.Parse[uapi.Response](c.in)
	if c.out < uapi.Size[uapi.CMEvent]()-8 { // the last field came later
		return syscall.ENOSPC
	}
	for {
		r, known, ok := m.poll()
		switch {
		case !ok:
			c.Answer.Flags |= uapi.ReplyWait
			return syscall.EAGAIN
		case known:
			return c.respond(q.Response, uapi.Bytes(&r))
		}
	}
}

// event converts an event. It reports false if the program has destroyed the id that
// the event concerns.
func (m *channel) event(e *cma.Event) (r uapi.CMEvent, known bool) {
	owner := e.ID
	if e.Listener != nil {
		owner = e.Listener
	}
	m.all.mu.Lock()
	x := m.all.by[owner]
	m.all.mu.Unlock()
	if x == nil {
		if e.Listener != nil {
			e.ID.Destroy()
		}
		return r, false
	}
	num := x.num
	if e.Listener != nil { // the new id has the listener's name until the program accepts it
		accepted, err := m.all.add(m, e.ID, 0)
		if err != nil {
			m.file.Account.Refuse("connection request", err)
			e.ID.Destroy()
			return r, false
		}
		num = accepted.num
	}
	x.events++
	r.UID, r.ID, r.Event, r.Status = x.uid, num, uint32(e.Type), uint32(int32(e.Status))
	if g, ok := e.Context.(*membership); ok && e.Listener == nil {
		g.events++
		r.UID = g.uid
	}
	m.param(e, &r)
	return r, true
}

// param fills in what an event tells the program beside its type.
func (m *channel) param(e *cma.Event, r *uapi.CMEvent) {
	if e.Type == cmid.EventUser || e.Type == cmid.EventInternal {
		binary.NativeEndian.PutUint64(r.Param[:], e.Argument)
		return
	}
	if e.ID.Type() == qp.UD {
		p := uapi.UDParam{QPN: e.UD.QPN, QKey: e.UD.QKey, AH: m.address(e.ID, &e.UD.Path)}
		p.PrivateLen = uint8(copy(p.Private[:], e.UD.PrivateData))
		if e.Type == cmid.EventConnectRequest { // whose private data is there
			p.PrivateLen = uint8(copy(p.Private[:], longer(e.UD.PrivateData, e.Conn.PrivateData)))
		}
		copy(r.Param[:], uapi.Bytes(&p))
		return
	}
	p := uapi.ConnParam{
		QPN: e.Conn.QPN, ResponderResources: e.Conn.ResponderResources, InitiatorDepth: e.Conn.InitiatorDepth,
		RetryCount: e.Conn.RetryCount, RNRRetryCount: e.Conn.RNRRetryCount,
	}
	if e.Conn.FlowControl {
		p.FlowControl = 1
	}
	if e.Conn.SRQ {
		p.SRQ = 1
	}
	p.PrivateLen = uint8(copy(p.Private[:], e.Conn.PrivateData))
	copy(r.Param[:], uapi.Bytes(&p))
}

// writeEvent queues an event for the program itself. librdmacm tells itself so that
// rdma_resolve_addrinfo has ended.
func (m *channel) writeEvent(c *command) error {
	q, _ := uapi.Parse[uapi.CMWriteEventCmd](c.in)
	t := cmid.EventType(min(q.Event, math.MaxUint8))
	if t != cmid.EventUser && t != cmid.EventInternal {
		return fmt.Errorf("writing %v: expected %v or %v: %w", t, cmid.EventUser, cmid.EventInternal, syscall.EINVAL)
	}
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	if err := x.id.WriteEvent(t, int(int32(q.Status)), q.Argument); err != nil {
		return fmt.Errorf("%w: %w", err, syscall.ENOBUFS)
	}
	return nil
}

func longer(a, b []byte) []byte {
	if len(b) > len(a) {
		return b
	}
	return a
}

func (m *channel) joinIP(c *command) error {
	q, _ := uapi.Parse[uapi.CMJoinIPCmd](c.in)
	return m.joinGroup(c, q.Response, q.UID, q.ID, q.Addr[:], false)
}

func (m *channel) join(c *command) error {
	q, _ := uapi.Parse[uapi.CMJoinCmd](c.in)
	if q.JoinFlags != 0 && q.JoinFlags != 1 { // full member, or send-only member
		return syscall.EINVAL
	}
	return m.joinGroup(c, q.Response, q.UID, q.ID, q.Addr[:], q.JoinFlags == 1)
}

func (m *channel) joinGroup(c *command, to, uid uint64, num uint32, addr []byte, sendOnly bool) error {
	a, err := uapi.ParseAddr(addr)
	if err != nil {
		return err
	}
	x, err := m.find(num)
	if err != nil {
		return err
	}
	if err := m.setPeerPort(x.id); err != nil {
		return err
	}
	g := &membership{addr: a.Addr(), uid: uid}
	n, err := m.all.addGroup(x, g)
	if err != nil {
		return err
	}
	join := x.id.JoinMulticast
	if sendOnly {
		join = x.id.JoinMulticastToSend
	}
	if err = join(g.addr, g); err == nil {
		if err = c.respond(to, uapi.Bytes(&uapi.HandleOnly{Handle: n})); err != nil {
			_ = x.id.LeaveMulticast(g.addr)
		}
	}
	if err != nil {
		m.all.removeGroup(x, n)
	}
	return err
}

// addGroup assigns a number to a group that an id joins.
func (a *Manager) addGroup(x *connection, g *membership) (uint32, error) {
	if err := x.account.Memory.Take(idBytes); err != nil {
		return 0, fmt.Errorf("multicast group: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ids[x.num] != x { // another thread has ended it
		x.account.Memory.Return(idBytes)
		return 0, syscall.ENOENT
	}
	for a.ids[a.next] != nil || a.member(a.next) != nil {
		a.next++
	}
	n := a.next
	a.next++
	x.groups[n] = g
	return n, nil
}

// removeGroup forgets a group that an id has joined, and returns it.
func (a *Manager) removeGroup(x *connection, n uint32) *membership {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := x.groups[n]
	if g != nil {
		delete(x.groups, n)
		x.account.Memory.Return(idBytes)
	}
	return g
}

// member returns the id that has joined a group under a number. The caller holds a.mu.
func (a *Manager) member(num uint32) *connection {
	for _, x := range a.ids {
		if x.groups[num] != nil {
			return x
		}
	}
	return nil
}

func (m *channel) leave(c *command) error {
	q, _ := uapi.Parse[uapi.CMByID](c.in)
	m.all.mu.Lock()
	x := m.all.member(q.ID)
	here := x != nil && x.file == m
	m.all.mu.Unlock()
	if !here {
		return syscall.ENOENT
	}
	g := m.all.removeGroup(x, q.ID)
	if g == nil {
		return syscall.ENOENT
	}
	if err := x.id.LeaveMulticast(g.addr); err != nil {
		return err
	}
	return c.respond(q.Response, uapi.Bytes(&uapi.DestroyResp{EventsReported: g.events}))
}

// migrate moves an id to this file from that of another descriptor of the program.
func (m *channel) migrate(c *command) error {
	q, _ := uapi.Parse[uapi.CMByID](c.in)
	inode, err := c.Process.PipeInode(int(q.Arg))
	if err != nil {
		return err
	}
	m.all.mu.Lock()
	x := m.all.ids[q.ID]
	var from *channel
	if x != nil {
		from = x.file
	}
	m.all.mu.Unlock()
	if from == nil || from.file.Pipe.Inode != inode {
		return syscall.ENOENT
	}
	taken, err := x.moveTo(m, from)
	if err != nil {
		return err
	}
	from.settle()
	m.signal()
	return c.respond(q.Response, uapi.Bytes(&uapi.DestroyResp{EventsReported: taken}))
}

// moveTo moves an id to another file, and returns how many of its events were taken
// from the old one. None is taken from there afterwards.
func (x *connection) moveTo(m, from *channel) (taken uint32, _ error) {
	from.mu.Lock()
	defer from.mu.Unlock()
	m.all.mu.Lock()
	stays := x.file == from
	m.all.mu.Unlock()
	if !stays { // another thread has moved it
		return 0, syscall.ENOENT
	}
	if err := x.id.Migrate(m.ch); err != nil {
		return 0, err
	}
	m.all.mu.Lock()
	x.file = m
	m.all.mu.Unlock()
	return x.events, nil
}

// settle ends the file's readability if it has no events any more.
func (m *channel) settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.signalled && m.ch.Pending() == 0 {
		m.signalled = false
		m.file.Pipe.Remove(func([]byte) bool { return true })
	}
}
