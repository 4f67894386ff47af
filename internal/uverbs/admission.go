//go:build linux

package uverbs

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

// connectionDescriptors is how many descriptors a connection counts for: its
// own, and those that a message may bring, which are open until it is answered.
const connectionDescriptors = 1 + maxRights

// maxRefusing is how many connections of programs that are not served may wait
// for their answer at the same time. Others are closed without an answer, which
// bounds what users cost the server that are not allowed or are over their quota.
const maxRefusing = 16

// refusedPatience is how long a connection that is refused may take for its
// one request.
const refusedPatience = time.Second

// busyPause is how long accepting waits for descriptors to be given back.
const busyPause = 50 * time.Millisecond

// accept takes connections until the listener is closed.
func (s *Server) accept() {
	defer s.running.Done()
	for {
		c, err := s.ln.AcceptUnix()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			s.exhausted(err)
			if s.ctx.Err() != nil {
				return
			}
			continue
		}
		// Here, and not in a goroutine of its own, so that connections that are
		// not admitted hold no descriptors however fast they come.
		p := peerOf(c)
		if p == nil || !s.admit(p) {
			_ = c.Close()
			continue
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = c.Close()
			s.dismiss(p)
			return
		}
		s.conns[c] = struct{}{}
		s.running.Add(1)
		s.mu.Unlock()
		go s.serve(c, p)
	}
}

// exhausted waits, where the system gives no more descriptors: programs that
// want a connection wait with it.
func (s *Server) exhausted(err error) {
	why := noDescriptor(errnoOf(err))
	s.count(why.Detail)
	s.logf(why.Reason, "%v", why)
	select {
	case <-time.After(busyPause):
	case <-s.ctx.Done():
	}
}

// admit decides about a connection before anything of it is read or opened: by
// its user, and by what the programs of that user hold. It reports whether the
// connection is to be answered, if only by why it is refused. [Server.dismiss]
// ends it.
func (s *Server) admit(p *process) bool {
	if p.refused = s.allowed(p); p.refused == nil {
		p.account = s.account(p.uid)
		p.refused = p.account.descriptors.take(connectionDescriptors)
	}
	if p.refused != nil && s.refusing.Add(1) > maxRefusing {
		s.refusing.Add(-1)
		s.refused(p, "connection", &request{}, nil, p.refused)
		return false
	}
	return true
}

// dismiss gives back what admit took.
func (s *Server) dismiss(p *process) {
	if p.refused != nil {
		s.refusing.Add(-1)
	} else {
		p.account.descriptors.give(connectionDescriptors)
	}
}

// serve answers one connection's requests, one after the other.
func (s *Server) serve(c *net.UnixConn, admitted *process) {
	defer s.running.Done()
	defer s.dismiss(admitted)
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		_ = c.Close()
	}()
	e, err := newExchange(c)
	if err != nil {
		return
	}
	p := admitted
	if p.refused == nil {
		if p = s.identify(c, admitted); p == nil {
			return
		}
	}
	if p.refused != nil { // which one answer tells
		defer p.close()
		_ = c.SetDeadline(time.Now().Add(refusedPatience))
		s.converse(p, e, p.refused)
		return
	}
	e.run(s, func() { s.converse(p, e, nil) })
}

// peerOf returns the process that made a connection, or nil if unknown.
func peerOf(c *net.UnixConn) (p *process) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			p = &process{pid: int(cred.Pid), uid: cred.Uid, gid: cred.Gid}
		}
	})
	return p
}

// identify gives the process that made a connection, as it is known already or
// as it becomes known now; nil at the server's end.
func (s *Server) identify(c *net.UnixConn, peer *process) *process {
	p := &process{pid: peer.pid, uid: peer.uid, gid: peer.gid, account: peer.account}
	if old := s.known(p); old != nil {
		return old
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	_ = raw.Control(func(fd uintptr) { p.pidfd = pidfdOf(int(fd), p.pid) })
	return s.join(p)
}

// join makes a process known, unless another thread of it was faster.
func (s *Server) join(p *process) *process {
	if p.pidfd != nil {
		if p.refused = p.account.descriptors.take(processDescriptors); p.refused == nil {
			p.held.Store(true)
		}
	}
	if p.refused == nil && int(p.uid) != os.Geteuid() {
		p.denied = p.openMemory()
		if no := errnoOf(p.denied); no == syscall.EMFILE || no == syscall.ENFILE {
			p.refused = noDescriptor(no)
		}
	}
	if p.refused != nil {
		return p // of this connection alone, which is short
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		p.close()
		return nil
	}
	if old := s.processes[p.pid]; old.is(p) { // another thread of it was faster
		p.close()
		return old
	}
	s.running.Add(1)
	if !p.watch(func() {
		defer s.running.Done()
		s.mu.Lock()
		if s.processes[p.pid] == p {
			delete(s.processes, p.pid)
		}
		s.mu.Unlock()
		p.close()
	}) {
		s.running.Done()
		return p // of this connection alone
	}
	s.processes[p.pid] = p
	return p
}

// known finds a process among those that made connections before.
func (s *Server) known(p *process) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.processes[p.pid]; old.is(p) {
		return old
	}
	return nil
}

// is reports whether two are the same process, still running as the same user.
func (p *process) is(other *process) bool {
	return p != nil && p.uid == other.uid && p.gid == other.gid && !p.ended()
}

// allowed reports whether a program is served.
func (s *Server) allowed(p *process) error {
	ok := p.uid == 0 || int(p.uid) == os.Geteuid()
	if s.cfg.Allow != nil {
		ok = s.cfg.Allow(p.uid, p.gid)
	}
	if !ok {
		return refuse(syscall.EACCES, reason.ClientUser, uint64(os.Geteuid()), uint64(p.uid))
	}
	return nil
}
