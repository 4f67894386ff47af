//go:build linux

package uverbs

import (
	stdcontext "context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"softrdma/internal/cma"
	"softrdma/internal/qp"
	"softrdma/internal/uverbs/uapi"
)

// managed is what the files of connection management of a server share: an id
// may move from one to another.
type managed struct {
	m    *cma.Manager
	host host

	mu   sync.Mutex // taken after a file's lock
	ids  map[uint32]*ucmID
	by   map[*cma.ID]*ucmID
	next uint32
}

// A ucmID is an id as a program knows it.
type ucmID struct {
	id     *cma.ID
	num    uint32
	uid    uint64 // the program's name of it
	file   *manager
	events uint32 // that the program has taken
	groups map[uint32]*membership
}

// A membership is a multicast group that an id has joined.
type membership struct {
	addr   netip.Addr
	uid    uint64
	events uint32
}

// A manager is an open file of connection management: an event channel.
type manager struct {
	all  *managed
	file *file
	ch   *cma.EventChannel
	stop stdcontext.CancelFunc
	own  bool // a program of this module's, see uapi

	level sync.Mutex // the state of the file's readability, and what was taken of its ids' events
	told  bool
}

func newManager(f *file, all *managed) *manager {
	s := f.server
	m := &manager{all: all, file: f, ch: all.m.NewChannel()}
	var ctx stdcontext.Context
	ctx, m.stop = stdcontext.WithCancel(s.ctx)
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		for m.ch.Wait(ctx) == nil {
			m.tell()
		}
	}()
	return m
}

// tell makes the file readable while there are events.
func (m *manager) tell() {
	m.level.Lock()
	defer m.level.Unlock()
	if !m.told && m.ch.Pending() > 0 {
		m.told = true
		m.file.tell.put([]byte{1})
	}
}

// poll takes an event, and makes one of the program's of it, if it is about what
// that knows.
func (m *manager) poll() (e cma.Event, r ucmEvent, known, ok bool) {
	m.level.Lock()
	defer m.level.Unlock()
	if e, ok = m.ch.Poll(); ok {
		r, known = m.event(&e)
	}
	if m.told && m.ch.Pending() == 0 {
		m.told = false
		m.file.tell.drop(func([]byte) bool { return true })
	}
	return e, r, known, ok
}

func (m *manager) ioctl(*call, uint64, uint64) error     { return syscall.ENOTTY }
func (m *manager) mmap(*call, uint64, uint64, int) error { return syscall.ENODEV }

// count is how many ids the program has on this file.
func (m *manager) count() int {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	n := 0
	for _, x := range m.all.ids {
		if x.file == m {
			n++
		}
	}
	return n
}

func (m *manager) end() {
	m.stop()
	_ = m.ch.Close()
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	for num, x := range m.all.ids {
		if x.file == m {
			delete(m.all.ids, num)
			delete(m.all.by, x.id)
		}
	}
}

// add gives an id a number.
func (a *managed) add(m *manager, id *cma.ID, uid uint64) *ucmID {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.ids[a.next] != nil {
		a.next++
	}
	x := &ucmID{id: id, num: a.next, uid: uid, file: m, groups: make(map[uint32]*membership)}
	a.next++
	a.ids[x.num], a.by[id] = x, x
	return x
}

// find gives the id of a number, which must be of this file.
func (m *manager) find(num uint32) (*ucmID, error) {
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	x := m.all.ids[num]
	if x == nil {
		return nil, fmt.Errorf("id %d: %w", num, syscall.ENOENT)
	}
	if x.file != m {
		return nil, fmt.Errorf("id %d: %w", num, syscall.EINVAL)
	}
	return x, nil
}

// A ucmCommand is a command of connection management, taken apart.
type ucmCommand struct {
	*call
	in  []byte
	out int // bytes of room for the answer
}

func (c *ucmCommand) respond(addr uint64, b []byte) error { return c.store(room{addr, c.out}, b) }

// write implements service (ucma_write).
func (m *manager) write(c *call, buf []byte) error {
	h, ok := parse[ucmHeader](buf)
	if !ok || int(h.In)+size[ucmHeader]() > len(buf) {
		return syscall.EINVAL
	}
	r, ok := ucmCommands[h.Command]
	if !ok {
		return fmt.Errorf("command %d of connection management: %w", h.Command, syscall.ENOSYS)
	}
	in := buf[size[ucmHeader]():][:h.In]
	if len(in) < r.in {
		return syscall.EINVAL
	}
	if int(h.Out) < r.out {
		return syscall.ENOSPC
	}
	return m.numbered(r.do(m, &ucmCommand{c, in, int(h.Out)}))
}

// numbered gives errors of cma the numbers that the kernel has for them, or of
// what only programs of this module's are told.
func (m *manager) numbered(err error) error {
	var no syscall.Errno
	switch {
	case err == nil || errors.As(err, &no):
		return err
	case errors.Is(err, cma.ErrAddrInUse):
		return fmt.Errorf("%w (%w)", err, syscall.EADDRINUSE)
	case errors.Is(err, cma.ErrAddrNotAvail):
		return fmt.Errorf("%w (%w)", err, syscall.EADDRNOTAVAIL)
	case m.own && errors.Is(err, cma.ErrOver):
		return fmt.Errorf("%w (%w)", err, uapi.ErrnoOver)
	}
	return err
}

type ucmRow struct {
	in, out int
	do      func(m *manager, c *ucmCommand) error
}

var ucmCommands map[uint32]ucmRow

func init() {
	ucmCommands = map[uint32]ucmRow{
		ucmCreateID:     {size[ucmCreate](), 4, (*manager).createID},
		ucmDestroyID:    {size[ucmByID](), 4, (*manager).destroyID},
		ucmBindIP:       {size[ucmBindIPCmd](), 0, (*manager).bindIP},
		ucmBind:         {8, 0, (*manager).bind},
		ucmResolveIP:    {size[ucmResolveIPCmd](), 0, (*manager).resolveIP},
		ucmResolveAddr:  {size[ucmResolveAddrCmd](), 0, (*manager).resolveAddr},
		ucmResolveRoute: {size[ucmPair](), 0, (*manager).resolveRoute},
		ucmQueryRoute:   {size[ucmByID](), size[ucmRoute](), (*manager).queryRoute},
		ucmQuery:        {size[ucmByID](), 0, (*manager).query},
		ucmConnect:      {size[ucmConnectCmd](), 0, (*manager).connect},
		ucmListen:       {size[ucmPair](), 0, (*manager).listen},
		ucmAccept:       {size[ucmAcceptCmd](), 0, (*manager).accept},
		ucmReject:       {size[ucmRejectCmd](), 0, (*manager).reject},
		ucmDisconnect:   {4, 0, (*manager).disconnect},
		ucmInitQPAttr:   {size[ucmByID](), size[qpAttr](), (*manager).initQPAttr},
		ucmGetEvent:     {8, 0, (*manager).getEvent},
		ucmSetOption:    {size[ucmOption](), 0, (*manager).setOption},
		ucmNotify:       {size[ucmPair](), 0, (*manager).notify},
		ucmJoinIPMcast:  {size[ucmJoinIPCmd](), 4, (*manager).joinIP},
		ucmJoinMcast:    {size[ucmJoinCmd](), 4, (*manager).join},
		ucmLeaveMcast:   {size[ucmByID](), 4, (*manager).leave},
		ucmMigrateID:    {size[ucmByID](), 4, (*manager).migrate},
		uapi.CMOwn:      {size[uapi.OwnCM](), size[uapi.OwnCMResp](), (*manager).owned},
	}
}

func (m *manager) createID(c *ucmCommand) error {
	q, _ := parse[ucmCreate](c.in)
	space := cma.PortSpace(q.PS)
	var t qp.Type
	switch space {
	case cma.PortSpaceTCP, cma.PortSpaceUDP, cma.PortSpaceIPoIB:
	case cma.PortSpaceIB:
		t = qp.Type(q.QPType)
	default:
		return syscall.EINVAL
	}
	id, err := m.ch.NewID(space, t)
	if err != nil {
		return err
	}
	if err := id.SetProtocol(cma.Any); err != nil {
		return err
	}
	x := m.all.add(m, id, q.UID)
	if err := c.respond(q.Response, bytesOf(&handleOnly{Handle: x.num})); err != nil {
		m.forget(x)
		return err
	}
	return nil
}

// forget ends an id.
func (m *manager) forget(x *ucmID) {
	x.id.Destroy()
	m.all.mu.Lock()
	delete(m.all.ids, x.num)
	delete(m.all.by, x.id)
	m.all.mu.Unlock()
	m.settle() // its events are gone
}

func (m *manager) destroyID(c *ucmCommand) error {
	q, _ := parse[ucmByID](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	m.forget(x)
	return c.respond(q.Response, bytesOf(&destroyResp{EventsReported: x.events}))
}

func (m *manager) bindIP(c *ucmCommand) error {
	q, _ := parse[ucmBindIPCmd](c.in)
	return m.bindTo(q.ID, q.Addr[:])
}

func (m *manager) bind(c *ucmCommand) error {
	var q ucmBindCmd
	copy(bytesOf(&q), c.in)
	return m.bindTo(q.ID, q.Addr[:])
}

func (m *manager) bindTo(num uint32, addr []byte) error {
	a, err := uapi.ParseAddr(addr)
	if err != nil {
		return err
	}
	x, err := m.find(num)
	if err != nil {
		return err
	}
	return x.id.Bind(m.all.host.meant(a))
}

func (m *manager) resolveIP(c *ucmCommand) error {
	q, _ := parse[ucmResolveIPCmd](c.in)
	return m.resolve(q.ID, q.Src[:], q.Dst[:])
}

func (m *manager) resolveAddr(c *ucmCommand) error {
	q, _ := parse[ucmResolveAddrCmd](c.in)
	return m.resolve(q.ID, q.Src[:], q.Dst[:])
}

func (m *manager) resolve(num uint32, src, dst []byte) error {
	s, err := uapi.ParseAddr(src)
	if err != nil {
		return err
	}
	d, err := uapi.ParseAddr(dst)
	if err != nil {
		return err
	}
	if !d.Addr().IsValid() {
		return syscall.EINVAL
	}
	x, err := m.find(num)
	if err != nil {
		return err
	}
	return x.id.ResolveAddr(s, d)
}

func (m *manager) resolveRoute(c *ucmCommand) error {
	q, _ := parse[ucmPair](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	return x.id.ResolveRoute()
}

func (m *manager) listen(c *ucmCommand) error {
	q, _ := parse[ucmPair](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	return x.id.Listen(int(min(max(int32(q.Arg), 0), cma.MaxBacklog)))
}

func (m *manager) disconnect(c *ucmCommand) error {
	q, _ := parse[handleOnly](c.in)
	x, err := m.find(q.Handle)
	if err != nil {
		return err
	}
	return x.id.Disconnect()
}

func (m *manager) notify(c *ucmCommand) error {
	q, _ := parse[ucmPair](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	if q.Arg != 4 { // communication established
		return syscall.EINVAL
	}
	return x.id.Establish()
}
