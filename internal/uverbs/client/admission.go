//go:build linux

package client

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
	"softrdma/internal/wire/uapi"
)

// MaxRefusing is how many connections of refused programs may wait for their
// answer at the same time. Further ones are closed without an answer, which
// bounds what users cost the server that are not allowed or over their quota.
const MaxRefusing = 16

// An Admission decides which programs are served, and knows the processes that
// are.
type Admission struct {
	allow    func(uid, gid uint32) bool // nil allows the server's own user and root
	cost     int64                      // descriptors that a connection counts for
	runtime  *Runtime
	budget   *Budget
	refusing atomic.Int32 // connections that wait to hear why they are refused

	// Ended, if set, is called when the system reports that a process has ended.
	Ended func(*Process)

	mu        sync.Mutex
	closed    bool
	processes map[int]*Process
	accounts  map[uint32]*Account // by user
}

// NewAdmission makes an Admission for connections that count for cost descriptors
// each. Allow reports whether programs of a user and group are served; nil allows
// the server's own user and root. Memory is what all programs may hold (see NewBudget).
func NewAdmission(s *Runtime, cost, memory int64, allow func(uid, gid uint32) bool) *Admission {
	return &Admission{
		allow: allow, cost: cost, runtime: s, budget: NewBudget(memory), processes: make(map[int]*Process), accounts: make(map[uint32]*Account),
	}
}

// Account returns the account of a user.
func (s *Admission) Account(uid uint32) *Account {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[uid]
	if a == nil {
		a = s.budget.NewAccount()
		a.uid, a.refusals = uid, &s.runtime.Refusals
		s.accounts[uid] = a
	}
	return a
}

// Processes returns the processes that are known.
func (s *Admission) Processes() (list []*Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		list = append(list, p)
	}
	return list
}

// Held returns how many descriptors, mappings and bytes the programs of all users hold.
func (s *Admission) Held() (descriptors, mappings, memory int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.accounts {
		descriptors += a.Descriptors.Held()
		mappings += a.Mappings.Held()
		memory += a.Memory.Held()
	}
	return descriptors, mappings, memory
}

// Close forgets all processes. None becomes known after that.
func (s *Admission) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, p := range s.processes {
		p.Close()
	}
}

// Admit decides about a connection before anything is read from it or opened for
// it: by its user, and by what the programs of that user hold. It reports whether
// the connection gets an answer, if only why it is refused. [Admission.Dismiss]
// ends it.
func (s *Admission) Admit(p *Process) bool {
	if p.Refused = s.allowed(p); p.Refused == nil {
		p.Account = s.Account(p.UID)
		p.Refused = s.take(p.Account)
	}
	if p.Refused != nil && s.refusing.Add(1) > MaxRefusing {
		s.refusing.Add(-1)
		s.runtime.Refusals.Call(p, "connection", &uapi.Request{}, nil, p.Refused)
		return false
	}
	return true
}

// Dismiss ends a connection that Admit has admitted.
func (s *Admission) Dismiss(p *Process) {
	if p.Refused != nil {
		s.refusing.Add(-1)
	} else {
		p.Account.Descriptors.Return(s.cost)
		p.Account.Memory.Return(connectionBytes)
	}
}

// connectionBytes is how much memory a connection counts for: its buffers and its stacks.
const connectionBytes = 64 << 10

// take counts a connection.
func (s *Admission) take(a *Account) error {
	err := a.Descriptors.Take(s.cost)
	if err != nil {
		return err
	}
	if err = a.Memory.Take(connectionBytes); err != nil {
		a.Descriptors.Return(s.cost)
	}
	return err
}

// Peer returns the process that made a connection, or nil if unknown.
func Peer(c *net.UnixConn) *Process {
	cred, err := unixmsg.Peer(c)
	if err != nil {
		return nil
	}
	return &Process{PID: int(cred.Pid), UID: cred.Uid, GID: cred.Gid}
}

// Identify returns the process that made an admitted connection, which may be
// known from other connections. It returns nil once the Admission is closed.
func (s *Admission) Identify(c *net.UnixConn, peer *Process) *Process {
	p := &Process{PID: peer.PID, UID: peer.UID, GID: peer.GID, Account: peer.Account, refusals: &s.runtime.Refusals}
	if old := s.known(p); old != nil {
		return old
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) { p.pidfd = pidfdOf(int(fd), p.PID) })
	return s.Join(p)
}

// Join makes a process known, unless another of its threads was faster.
func (s *Admission) Join(p *Process) *Process {
	if p.pidfd != nil {
		p.Refused = p.Account.Descriptors.Take(ProcessDescriptors)
		p.held.Store(p.Refused == nil)
	}
	if p.Refused == nil && int(p.UID) != os.Geteuid() {
		p.denied = p.openMemory()
		if no := Errno(p.denied); no == syscall.EMFILE || no == syscall.ENFILE {
			p.Refused = NoDescriptor(no)
		}
	}
	if p.Refused != nil {
		return p // known to this connection only, which ends after its answer
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		p.Close()
		return nil
	}
	if old := s.processes[p.PID]; old.Same(p) {
		p.Close()
		return old
	}
	s.runtime.Running.Add(1)
	watched := p.watch(func() {
		defer s.runtime.Running.Done()
		s.mu.Lock()
		if s.processes[p.PID] == p {
			delete(s.processes, p.PID)
		}
		s.mu.Unlock()
		p.Close()
		if s.Ended != nil {
			s.Ended(p)
		}
	})
	if !watched {
		s.runtime.Running.Done()
		return p // known to this connection only
	}
	s.processes[p.PID] = p
	return p
}

// known returns the process if it has made a connection before, or nil.
func (s *Admission) known(p *Process) *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.processes[p.PID]; old.Same(p) {
		return old
	}
	return nil
}

// allowed returns why a program is not served, or nil.
func (s *Admission) allowed(p *Process) error {
	ok := p.UID == 0 || int(p.UID) == os.Geteuid()
	if s.allow != nil {
		ok = s.allow(p.UID, p.GID)
	}
	if !ok {
		return Refuse(syscall.EACCES, reason.ClientUser, uint64(os.Geteuid()), uint64(p.UID))
	}
	return nil
}
