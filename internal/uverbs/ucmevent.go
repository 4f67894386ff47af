//go:build linux

package uverbs

import (
	"slices"
	"syscall"

	"softrdma/internal/cma"
	"softrdma/internal/qp"
	"softrdma/internal/uverbs/uapi"
)

// getEvent gives the program its next event. Where there is none, the library
// waits for the file to become readable and asks again.
func (m *manager) getEvent(c *ucmCommand) error {
	q, _ := parse[response](c.in)
	if c.out < size[ucmEvent]()-8 { // the last field came later
		return syscall.ENOSPC
	}
	for {
		e, r, known, ok := m.poll()
		switch {
		case !ok:
			c.answer.Flags |= replyWait
			return syscall.EAGAIN
		case known && m.own:
			more := ownEvent(&e)
			return c.respond(q.Response, slices.Concat(bytesOf(&r), bytesOf(&more)))
		case known:
			return c.respond(q.Response, bytesOf(&r))
		}
	}
}

// event makes an event of the program's. It tells false where the program has
// given up what the event is about.
func (m *manager) event(e *cma.Event) (r ucmEvent, known bool) {
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
	x.events++
	r.UID, r.ID, r.Event, r.Status = x.uid, x.num, uint32(e.Type), uint32(int32(e.Status))
	switch {
	case e.Listener != nil:
		// The new id has the listener's name until the program accepts.
		r.ID = m.all.add(m, e.ID, 0).num
	case e.Context != nil:
		g, ok := e.Context.(*membership)
		if !ok {
			break
		}
		g.events++
		r.UID = g.uid
	}
	if e.ID.Type() == qp.UD {
		p := udParam{QPN: e.UD.QPN, QKey: e.UD.QKey, AH: ahOf(&e.UD.Path)}
		p.PrivateLen = uint8(copy(p.Private[:], e.UD.PrivateData))
		if e.Type == cma.EventConnectRequest { // the request's data stands there
			p.PrivateLen = uint8(copy(p.Private[:], longer(e.UD.PrivateData, e.Conn.PrivateData)))
		}
		copy(r.Param[:], bytesOf(&p))
		return r, true
	}
	p := connParam{
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
	copy(r.Param[:], bytesOf(&p))
	return r, true
}

func longer(a, b []byte) []byte {
	if len(b) > len(a) {
		return b
	}
	return a
}

func (m *manager) joinIP(c *ucmCommand) error {
	q, _ := parse[ucmJoinIPCmd](c.in)
	return m.joinGroup(c, q.Response, q.UID, q.ID, q.Addr[:])
}

func (m *manager) join(c *ucmCommand) error {
	q, _ := parse[ucmJoinCmd](c.in)
	if q.JoinFlags != 0 && q.JoinFlags != 1 { // full member, or one that sends alone
		return syscall.EINVAL
	}
	return m.joinGroup(c, q.Response, q.UID, q.ID, q.Addr[:])
}

func (m *manager) joinGroup(c *ucmCommand, to, uid uint64, num uint32, addr []byte) error {
	a, err := uapi.ParseAddr(addr)
	if err != nil {
		return err
	}
	x, err := m.find(num)
	if err != nil {
		return err
	}
	g := &membership{addr: a.Addr(), uid: uid}
	m.all.mu.Lock()
	for m.all.ids[m.all.next] != nil || m.member(m.all.next) != nil {
		m.all.next++
	}
	n := m.all.next
	m.all.next++
	x.groups[n] = g
	m.all.mu.Unlock()
	if err = x.id.JoinMulticast(g.addr, g); err == nil {
		if err = c.respond(to, bytesOf(&handleOnly{Handle: n})); err != nil {
			_ = x.id.LeaveMulticast(g.addr)
		}
	}
	if err != nil {
		m.all.mu.Lock()
		delete(x.groups, n)
		m.all.mu.Unlock()
	}
	return err
}

// member finds who has joined under a number. The caller holds all.mu.
func (m *manager) member(num uint32) *ucmID {
	for _, x := range m.all.ids {
		if x.groups[num] != nil {
			return x
		}
	}
	return nil
}

func (m *manager) leave(c *ucmCommand) error {
	q, _ := parse[ucmByID](c.in)
	m.all.mu.Lock()
	x := m.member(q.ID)
	var g *membership
	if x != nil && x.file == m {
		g = x.groups[q.ID]
		delete(x.groups, q.ID)
	}
	m.all.mu.Unlock()
	if g == nil {
		return syscall.ENOENT
	}
	if err := x.id.LeaveMulticast(g.addr); err != nil {
		return err
	}
	return c.respond(q.Response, bytesOf(&destroyResp{EventsReported: g.events}))
}

// migrate moves an id here from the file of another descriptor of the program's.
func (m *manager) migrate(c *ucmCommand) error {
	q, _ := parse[ucmByID](c.in)
	inode, err := c.process.inodeOf(int(q.Arg))
	if err != nil {
		return err
	}
	m.all.mu.Lock()
	x := m.all.ids[q.ID]
	var from *manager
	if x != nil {
		from = x.file
	}
	m.all.mu.Unlock()
	if from == nil || from.file.tell.inode != inode {
		return syscall.ENOENT
	}
	taken, err := x.moveTo(m, from)
	if err != nil {
		return err
	}
	from.settle()
	m.tell()
	return c.respond(q.Response, bytesOf(&destroyResp{EventsReported: taken}))
}

// moveTo makes an id one of another file, and tells how many of its events were
// taken from the one that it was of: none is after that.
func (x *ucmID) moveTo(m, from *manager) (taken uint32, _ error) {
	from.level.Lock()
	defer from.level.Unlock()
	m.all.mu.Lock()
	stays := x.file == from
	m.all.mu.Unlock()
	if !stays { // another thread was first
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

// settle ends the file's readability where its events have gone elsewhere.
func (m *manager) settle() {
	m.level.Lock()
	defer m.level.Unlock()
	if m.told && m.ch.Pending() == 0 {
		m.told = false
		m.file.tell.drop(func([]byte) bool { return true })
	}
}
