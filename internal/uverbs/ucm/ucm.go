//go:build linux

package ucm

import (
	stdcontext "context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"

	"softrdma/internal/cma"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/wire/uapi"
)

// Manager holds the ids of all files of connection management, because an id may
// move from one file to another.
type Manager struct {
	cma  *cma.Manager
	host host

	mu   sync.Mutex // taken after a file's lock
	ids  map[uint32]*connection
	by   map[*cma.ID]*connection
	next uint32
}

// New makes the connection manager of devices.
func New(devices []*device.Device) *Manager {
	h := host{devices}
	return &Manager{cma: cma.New(h, cma.Config{}), host: h, ids: make(map[uint32]*connection), by: make(map[*cma.ID]*connection)}
}

// Open opens the device file of connection management for a program.
func (a *Manager) Open(f *client.File) (client.Service, error) { return newChannel(f, a), nil }

// Wait waits until the connections of all files that have ended are closed.
func (a *Manager) Wait() { a.cma.Wait() }

// A connection is an id of a program.
type connection struct {
	id     *cma.ID
	num    uint32
	uid    uint64 // the program's name for it
	file   *channel
	events uint32 // that the program has taken
	groups map[uint32]*membership

	account *client.Account // that counts it
}

// A membership is a multicast group that an id has joined.
type membership struct {
	addr   netip.Addr
	uid    uint64
	events uint32
}

// A channel is an open file of connection management: an event channel.
type channel struct {
	all  *Manager
	file *client.File
	ch   *cma.EventChannel
	stop stdcontext.CancelFunc

	mu        sync.Mutex // guards signalled, and the counts of events that were taken
	signalled bool
}

func newChannel(f *client.File, all *Manager) *channel {
	s := f.Runtime
	m := &channel{all: all, file: f, ch: all.cma.NewChannel()}
	var ctx stdcontext.Context
	ctx, m.stop = stdcontext.WithCancel(s.Context)
	s.Running.Add(1)
	go func() {
		defer s.Running.Done()
		for m.ch.Wait(ctx) == nil {
			m.signal()
		}
	}()
	return m
}

// signal makes the file readable while there are events.
func (m *channel) signal() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.signalled && m.ch.Pending() > 0 {
		m.signalled = true
		m.file.Pipe.Put([]byte{1})
	}
}

// poll takes an event and converts it. Known reports whether the program knows what
// the event concerns.
func (m *channel) poll() (r uapi.CMEvent, known, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.ch.Poll()
	if ok {
		r, known = m.event(&e)
	}
	if m.signalled && m.ch.Pending() == 0 {
		m.signalled = false
		m.file.Pipe.Remove(func([]byte) bool { return true })
	}
	return r, known, ok
}

// Fail implements client.Service. The program reads the end of the file.
func (m *channel) Fail() {}

func (m *channel) Ioctl(*client.Call, uint64, uint64) error     { return syscall.ENOTTY }
func (m *channel) Mmap(*client.Call, uint64, uint64, int) error { return syscall.ENODEV }

// Count implements client.Service.
func (m *channel) Count() int {
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

func (m *channel) End() {
	m.stop()
	_ = m.ch.Close()
	m.all.mu.Lock()
	defer m.all.mu.Unlock()
	for _, x := range m.all.ids {
		if x.file == m {
			m.all.remove(x)
		}
	}
}

// idBytes is how much memory an id counts for, with its events, and each of its groups.
const idBytes = 4 << 10

// add assigns a number to an id. If the user has no memory for it, it returns why.
func (a *Manager) add(m *channel, id *cma.ID, uid uint64) (*connection, error) {
	if err := m.file.Account.Memory.Take(idBytes); err != nil {
		return nil, fmt.Errorf("id: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.ids[a.next] != nil {
		a.next++
	}
	x := &connection{id: id, num: a.next, uid: uid, file: m, groups: make(map[uint32]*membership), account: m.file.Account}
	a.next++
	a.ids[x.num], a.by[id] = x, x
	return x, nil
}

// remove forgets an id. The caller holds a.mu.
func (a *Manager) remove(x *connection) {
	if a.ids[x.num] != x {
		return
	}
	delete(a.ids, x.num)
	delete(a.by, x.id)
	x.account.Memory.Return(int64(1+len(x.groups)) * idBytes)
	x.groups = nil
}

// find returns the id of a number, which must belong to this file.
func (m *channel) find(num uint32) (*connection, error) {
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

// A command is a parsed command of connection management.
type command struct {
	*client.Call
	in  []byte
	out int // bytes of room for the answer
}

func (c *command) respond(addr uint64, b []byte) error {
	return c.Store(client.Buffer{Addr: addr, N: c.out}, b)
}

// Write implements client.Service (ucma_write).
func (m *channel) Write(c *client.Call, buf []byte) error {
	h, ok := uapi.Parse[uapi.CMHeader](buf)
	if !ok || int(h.In)+uapi.Size[uapi.CMHeader]() > len(buf) {
		return syscall.EINVAL
	}
	r, ok := commands[h.Command]
	if !ok {
		return fmt.Errorf("command %d of connection management: %w", h.Command, syscall.ENOSYS)
	}
	in := buf[uapi.Size[uapi.CMHeader]():][:h.In]
	if len(in) < r.in {
		return syscall.EINVAL
	}
	if int(h.Out) < r.out {
		return syscall.ENOSPC
	}
	return withErrno(r.do(m, &command{c, in, int(h.Out)}))
}

// withErrno adds the kernel's number to an error of cma.
func withErrno(err error) error {
	var no syscall.Errno
	switch {
	case err == nil || errors.As(err, &no):
		return err
	case errors.Is(err, cmid.ErrAddrInUse):
		return fmt.Errorf("%w (%w)", err, syscall.EADDRINUSE)
	case errors.Is(err, cmid.ErrAddrNotAvail):
		return fmt.Errorf("%w (%w)", err, syscall.EADDRNOTAVAIL)
	}
	return err
}

func (m *channel) createID(c *command) error {
	q, _ := uapi.Parse[uapi.CMCreate](c.in)
	space := cmid.PortSpace(q.PS)
	var t qp.Type
	switch space {
	case cmid.PortSpaceTCP, cmid.PortSpaceUDP, cmid.PortSpaceIPoIB:
	case cmid.PortSpaceIB:
		t = qp.Type(q.QPType)
	default:
		return syscall.EINVAL
	}
	id, err := m.ch.NewID(space, t)
	if err != nil {
		return err
	}
	if err := id.SetProtocol(cmid.Any); err != nil {
		return err
	}
	x, err := m.all.add(m, id, q.UID)
	if err != nil {
		id.Destroy()
		return err
	}
	if err := c.respond(q.Response, uapi.Bytes(&uapi.HandleOnly{Handle: x.num})); err != nil {
		m.forget(x)
		return err
	}
	return nil
}

// forget ends an id.
func (m *channel) forget(x *connection) {
	x.id.Destroy()
	m.all.mu.Lock()
	m.all.remove(x)
	m.all.mu.Unlock()
	m.settle() // its events are gone
}

func (m *channel) destroyID(c *command) error {
	q, _ := uapi.Parse[uapi.CMByID](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	m.forget(x)
	return c.respond(q.Response, uapi.Bytes(&uapi.DestroyResp{EventsReported: x.events}))
}

func (m *channel) bindIP(c *command) error {
	q, _ := uapi.Parse[uapi.CMBindIPCmd](c.in)
	return m.bindTo(q.ID, q.Addr[:])
}

func (m *channel) bind(c *command) error {
	var q uapi.CMBindCmd
	copy(uapi.Bytes(&q), c.in)
	return m.bindTo(q.ID, q.Addr[:])
}

func (m *channel) bindTo(num uint32, addr []byte) error {
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

func (m *channel) resolveIP(c *command) error {
	q, _ := uapi.Parse[uapi.CMResolveIPCmd](c.in)
	return m.resolve(q.ID, q.Src[:], q.Dst[:])
}

func (m *channel) resolveAddr(c *command) error {
	q, _ := uapi.Parse[uapi.CMResolveAddrCmd](c.in)
	return m.resolve(q.ID, q.Src[:], q.Dst[:])
}

func (m *channel) resolve(num uint32, src, dst []byte) error {
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

func (m *channel) resolveRoute(c *command) error {
	q, _ := uapi.Parse[uapi.CMPair](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	if err := m.setPeerPort(x.id); err != nil {
		return err
	}
	return x.id.ResolveRoute()
}

// setPeerPort gives the peers of an id the UDP port of its device: programs know no ports (see
// device.Device.Path).
func (m *channel) setPeerPort(id *cma.ID) error {
	switch p := id.DeviceAddr().Port(); p {
	case 0, cmid.RoCEv1Port, cmid.InfiniBandPort:
		return nil
	default:
		return id.SetUDPPorts(0, p)
	}
}

func (m *channel) listen(c *command) error {
	q, _ := uapi.Parse[uapi.CMPair](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	return x.id.Listen(int(min(max(int32(q.Arg), 0), cma.MaxBacklog)))
}

func (m *channel) disconnect(c *command) error {
	q, _ := uapi.Parse[uapi.HandleOnly](c.in)
	x, err := m.find(q.Handle)
	if err != nil {
		return err
	}
	return x.id.Disconnect()
}

func (m *channel) notify(c *command) error {
	q, _ := uapi.Parse[uapi.CMPair](c.in)
	x, err := m.find(q.ID)
	if err != nil {
		return err
	}
	if q.Arg != 4 { // communication established
		return syscall.EINVAL
	}
	return x.id.Establish()
}
