//go:build linux

package umad

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/device"
	"softrdma/internal/wire/uapi"
)

// Linux's numbers of the device files.
const (
	major     = 231
	firstUMAD = 0
	firstISSM = 64
)

// A Manager has the device files of ports, which are numbered in their order.
type Manager struct {
	runtime *client.Runtime
	ports   []*port
	started time.Time
}

// A port has the files of a Port.
type port struct {
	Port
	agents *agents
	kick   chan struct{} // the deadline may be earlier
	sm     atomic.Bool   // issmN is open
	clock  func() time.Duration
}

// New makes the device files of ports.
func New(r *client.Runtime, ports []Port) *Manager {
	m := &Manager{runtime: r, started: time.Now()}
	for _, x := range ports {
		p := &port{Port: x, kick: make(chan struct{}, 1), clock: func() time.Duration { return time.Since(m.started) }}
		p.agents = newAgents(x, func() {
			select {
			case p.kick <- struct{}{}:
			default:
			}
		})
		m.ports = append(m.ports, p)
	}
	return m
}

// Start makes the ports deliver what arrives, until Close. Time-outs end with the runtime.
func (m *Manager) Start() {
	for _, p := range m.ports {
		p.Handle(func(x *MAD) (bool, reason.Detail) { return p.agents.receive(p.clock(), x) })
		m.runtime.Running.Add(1)
		go func() {
			defer m.runtime.Running.Done()
			p.run(m.runtime)
		}()
	}
}

// Close ends what Start began, but for time-outs.
func (m *Manager) Close() {
	for _, p := range m.ports {
		p.Handle(nil)
	}
}

// run expires the requests of a port.
func (p *port) run(r *client.Runtime) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.Context.Done():
			return
		case <-p.kick:
		case <-timer.C:
		}
		p.agents.expire(p.clock())
		if due := p.agents.deadline(); due != never {
			timer.Reset(due - p.clock())
		} else {
			timer.Stop()
		}
	}
}

// Kinds returns the device files by name.
func (m *Manager) Kinds() map[string]*client.Kind {
	kinds := make(map[string]*client.Kind)
	for i, p := range m.ports {
		kinds[fmt.Sprint("umad", i)] = &client.Kind{Rdev: unix.Mkdev(major, firstUMAD+uint32(i)), Open: p.open, Private: true, Socket: true}
		if p.SMI() {
			kinds[fmt.Sprint("issm", i)] = &client.Kind{Rdev: unix.Mkdev(major, firstISSM+uint32(i)), Open: p.openSM, Private: true}
		}
	}
	return kinds
}

// AddSysfs adds the files of the class infiniband_mad.
func (m *Manager) AddSysfs(files map[string]string) {
	const class = "sys/class/infiniband_mad/"
	files[class+"abi_version"] = strconv.Itoa(uapi.MADABI)
	for i, p := range m.ports {
		for kind, first := range map[string]uint32{"umad": firstUMAD, "issm": firstISSM} {
			if kind == "issm" && !p.SMI() {
				continue
			}
			dir := fmt.Sprint(class, kind, i, "/")
			files[dir+"ibdev"], files[dir+"port"] = p.Device(), strconv.Itoa(p.Number())
			files[dir+"dev"] = device.FormatNumber(unix.Mkdev(major, first+uint32(i)))
		}
	}
}

func (p *port) open(f *client.File) (client.Service, error) {
	return &service{newFile(p.agents, &f.Account.Memory, f.Pipe), p}, nil
}

// openSM opens issmN, which one program at a time can have open. Linux lets the next one
// wait, unless it opens the file with O_NONBLOCK as opensm does; here it never waits.
func (p *port) openSM(*client.File) (client.Service, error) {
	if !p.sm.CompareAndSwap(false, true) {
		return nil, syscall.EAGAIN
	}
	if err := p.SetSM(true); err != nil {
		p.sm.Store(false)
		return nil, err
	}
	return (*smFile)(p), nil
}

// An smFile is an open file issmN, on which no call works.
type smFile port

func (*smFile) Write(*client.Call, []byte) error             { return syscall.EINVAL }
func (*smFile) Ioctl(*client.Call, uint64, uint64) error     { return syscall.ENOTTY }
func (*smFile) Mmap(*client.Call, uint64, uint64, int) error { return syscall.ENODEV }
func (*smFile) Fail()                                        {}
func (*smFile) Count() int                                   { return 1 }

// End implements client.Service.
func (s *smFile) End() {
	_ = s.SetSM(false) // the port may be gone
	s.sm.Store(false)
}
