package controller

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/logpage"
)

// Limits are what all controllers of a target allow. The zero value of each means its default.
type Limits struct {
	Queues      int // I/O queues of a controller, 1 to 1,024; 64
	QueueSize   int // entries of a queue, 2 to 1,024; 128
	MaxTransfer int // bytes of a command's data, a power of two from 8,192; 1 MiB
	CapsuleData int // bytes of data in the capsule of an I/O queue, a multiple of 16; 8,192
	Events      int // asynchronous event requests of a controller; 4
}

// AdminQueueSize is how many entries an admin queue has at most.
const AdminQueueSize = 32

func (l *Limits) setDefaults() error {
	for _, x := range []struct {
		name            string
		value           *int
		usual, from, to int
	}{
		{"queues", &l.Queues, 64, 1, 1024},
		{"queue size", &l.QueueSize, 128, 2, 1024},
		{"bytes of a transfer", &l.MaxTransfer, 1 << 20, 8192, 8 << 20},
		{"bytes of data in a capsule", &l.CapsuleData, 8192, 0, 64 << 10},
		{"event requests", &l.Events, 4, 1, 16},
	} {
		if *x.value == 0 {
			*x.value = x.usual
		}
		if *x.value < x.from || *x.value > x.to {
			return fmt.Errorf("%s: expected %d to %d, found %d", x.name, x.from, x.to, *x.value)
		}
	}
	if l.MaxTransfer&(l.MaxTransfer-1) != 0 {
		return fmt.Errorf("bytes of a transfer: expected a power of two, found %d", l.MaxTransfer)
	}
	if l.CapsuleData%16 != 0 {
		return fmt.Errorf("bytes of data in a capsule: expected a multiple of 16, found %d", l.CapsuleData)
	}
	return nil
}

// Subsystems are the subsystems of a target, their controllers, and the discovery service that names
// them.
type Subsystems struct {
	limits Limits

	mu          sync.Mutex // of all below, and of the queues' and controllers' fields
	list        []*Subsystem
	discovery   *Subsystem
	controllers map[uint16]*Controller
	lastID      uint16
	generation  uint64 // of the discovery log
	calls       []func()
}

// New returns the discovery service without other subsystems.
func New(limits Limits) (*Subsystems, error) {
	if err := limits.setDefaults(); err != nil {
		return nil, err
	}
	s := &Subsystems{limits: limits, controllers: make(map[uint16]*Controller), generation: 1}
	s.discovery = &Subsystem{NQN: logpage.DiscoveryNQN, discovery: true}
	s.discovery.setDefaults()
	return s, nil
}

// Limits returns the limits with their defaults.
func (s *Subsystems) Limits() Limits { return s.limits }

// unlock unlocks, and calls what must be called without the lock.
func (s *Subsystems) unlock() {
	calls := s.calls
	s.calls = nil
	s.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// Add adds a subsystem. Its fields must not change afterwards.
func (s *Subsystems) Add(sub *Subsystem) error {
	s.mu.Lock()
	defer s.unlock()
	if err := CheckNQN(sub.NQN); err != nil {
		return err
	}
	if s.find(sub.NQN) != nil {
		return fmt.Errorf("subsystem %s is there already", sub.NQN)
	}
	sub.setDefaults()
	s.list = append(s.list, sub)
	s.generation++
	for _, c := range s.controllers {
		if c.sub.discovery && sub.allows(c.host) {
			c.raise(logpage.AskDiscoveryChanged, logpage.EventDiscoveryChanged)
		}
	}
	return nil
}

// find returns the subsystem of a name, nil if there is none.
func (s *Subsystems) find(nqn string) *Subsystem {
	if nqn == logpage.DiscoveryNQN {
		return s.discovery
	}
	if i := slices.IndexFunc(s.list, func(sub *Subsystem) bool { return sub.NQN == nqn }); i >= 0 {
		return s.list[i]
	}
	return nil
}

// Controllers returns how many controllers there are.
func (s *Subsystems) Controllers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.controllers)
}

// Expire ends the controllers whose hosts have been silent for longer than their keep-alive timeout.
// It returns the queues whose connections the transport must end.
func (s *Subsystems) Expire(now time.Time) (ended []*Queue) {
	s.mu.Lock()
	defer s.unlock()
	for _, c := range s.controllers {
		if c.keepAlive > 0 && now.After(c.deadline) {
			ended = append(ended, s.end(c)...)
		}
	}
	return ended
}

// end removes a controller and returns its queues.
func (s *Subsystems) end(c *Controller) (ended []*Queue) {
	if s.controllers[c.id] != c {
		return nil
	}
	delete(s.controllers, c.id)
	c.unregister()
	c.csts |= fabrics.StatusFatal // for commands that are still in its I/O queues
	for _, q := range c.queues {
		ended = append(ended, q)
	}
	for q := range c.guests {
		ended = append(ended, q)
	}
	c.queues, c.guests = nil, nil
	return ended
}

// newID returns an identifier for a controller, 0 if there is none.
func (s *Subsystems) newID() uint16 {
	const most = 0xffef
	for range most {
		if s.lastID++; s.lastID > most {
			s.lastID = 1
		}
		if _, used := s.controllers[s.lastID]; !used {
			return s.lastID
		}
	}
	return 0
}

// An Origin is what a queue's connection says about the target's side. The discovery log returns it.
type Origin struct {
	Address  netip.AddrPort // that the host has dialled
	Provider uint8          // logpage.ProviderRoCEv2 and others
}

// CheckRequest checks the private data of a host's request. The rejection is 0 if it can be accepted.
func (s *Subsystems) CheckRequest(private []byte) (fabrics.Request, fabrics.Reject) {
	r, err := fabrics.ParseRequest(private)
	switch {
	case err != nil && len(private) < fabrics.RequestLen:
		return r, fabrics.RejectLength
	case err != nil:
		return r, fabrics.RejectFormat
	case r == fabrics.Request{}: // as of a host that sends none
		return r, fabrics.RejectLength
	case int(r.Queue) > s.limits.Queues:
		return r, fabrics.RejectQueue
	case r.HostSends == 0 || int(r.HostSends) >= s.QueueLimit(r.Queue):
		return r, fabrics.RejectHostSends
	case r.HostReceives == 0:
		return r, fabrics.RejectHostReceive
	}
	return r, 0
}

// QueueLimit returns how many entries a queue has at most.
func (s *Subsystems) QueueLimit(queue uint16) int {
	if queue == 0 {
		return AdminQueueSize
	}
	return s.limits.QueueSize
}
