//go:build linux

package uverbs

import (
	"cmp"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
)

// listen makes the server's socket. It is there with its mode or not at all.
func listen(path string, mode fs.FileMode) (*net.UnixListener, error) {
	if mode == 0 {
		mode = 0o600
	}
	ln, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	if err = os.Chmod(path, mode); err == nil {
		err = passCredentials(ln)
	}
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// passCredentials makes the system tell who sent each message; sockets that are
// accepted inherit it.
func passCredentials(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var e error
	if err := raw.Control(func(fd uintptr) { e = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }); err != nil {
		return err
	}
	return e
}

// busyPause is how long accepting waits for descriptors to be given back.
const busyPause = 50 * time.Millisecond

func (s *Server) accept() {
	defer s.running.Done()
	for {
		c, err := s.ln.AcceptUnix()
		switch {
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
			s.exhausted(err)
			continue
		case err != nil:
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = c.Close()
			return
		}
		s.conns[c] = struct{}{}
		s.running.Add(1)
		s.mu.Unlock()
		go s.serve(c)
	}
}

// exhausted waits, where the system gives no more descriptors: programs that
// want a connection wait with it.
func (s *Server) exhausted(err error) {
	why := noDescriptor(errnoOf(err))
	s.count(why.Detail)
	s.logf("%v", why)
	select {
	case <-time.After(busyPause):
	case <-s.ctx.Done():
	}
}

// refusedPatience is how long a connection that is refused may take for its
// one request.
const refusedPatience = time.Second

// serve answers one connection's requests, one after the other.
func (s *Server) serve(c *net.UnixConn) {
	defer s.running.Done()
	defer func() {
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		_ = c.Close()
	}()
	p := s.identify(c)
	if p == nil {
		return
	}
	e, err := newExchange(c)
	if err != nil {
		return
	}
	why := p.refused
	if why != nil {
		defer p.close()
	} else if why = p.account.descriptors.take(1); why == nil {
		defer p.account.descriptors.give(1)
	}
	if why != nil { // which one answer tells
		_ = c.SetDeadline(time.Now().Add(refusedPatience))
		s.converse(p, e, why)
		return
	}
	e.run(s, func() { s.converse(p, e, nil) })
}

// converse answers the requests of an exchange; with a reason why they are
// refused, one.
func (s *Server) converse(p *process, e *exchange, why error) {
	for {
		b, control := e.receive()
		if b == nil {
			return
		}
		a := &answer{}
		fds, err := p.sent(control)
		if err = cmp.Or(err, why); err != nil {
			a = s.decline(p, b, err)
		} else {
			a = s.answer(p, e, b, fds)
		}
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
		ok := a.sent || e.send(a)
		a.close()
		if a.watch != nil {
			a.watch.watch(e)
		}
		if !ok || why != nil {
			return
		}
	}
}

// sent tells whether the process that made the connection sent a message, as
// whom it was then, and gives the descriptors that came with it.
func (p *process) sent(oob []byte) (fds []int, _ error) {
	from := credentials(oob)
	var list []unix.SocketControlMessage
	if from == nil {
		var err error
		if list, err = unix.ParseSocketControlMessage(oob); err != nil {
			return nil, err
		}
	}
	for i := range list {
		if x, err := unix.ParseUnixRights(&list[i]); err == nil {
			fds = append(fds, x...)
		} else if cred, err := unix.ParseUnixCredentials(&list[i]); err == nil {
			from = cred
		}
	}
	switch {
	case from == nil || int(from.Pid) != p.pid:
		found := uint64(0)
		if from != nil {
			found = uint64(from.Pid)
		}
		return fds, refuse(syscall.EPERM, reason.ClientProcess, uint64(p.pid), found)
	case from.Uid != p.uid || from.Gid != p.gid:
		// What was allowed was allowed to the user that it was.
		return fds, refuse(syscall.EACCES, reason.ClientFile, uint64(p.uid), uint64(from.Uid))
	}
	return fds, nil
}

// identify finds out who made a connection, nil where that cannot be told.
func (s *Server) identify(c *net.UnixConn) *process {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	var p *process
	_ = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			p = &process{pid: int(cred.Pid), uid: cred.Uid, gid: cred.Gid, pidfd: pidfdOf(int(fd), int(cred.Pid))}
		}
	})
	if p == nil {
		return nil
	}
	return s.join(p)
}

// join gives the process that is known already, or makes p known.
func (s *Server) join(p *process) *process {
	if old := s.known(p); old != nil {
		p.close()
		return old
	}
	p.account = s.account(p.uid)
	if p.refused = s.allowed(p); p.refused == nil && p.pidfd != nil {
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

// is tells whether two are one process, which still runs as the user that it
// was.
func (p *process) is(other *process) bool {
	return p != nil && p.uid == other.uid && p.gid == other.gid && !p.ended()
}

// allowed tells whether a program is served.
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

// decline answers a request that is not carried out, whatever it is.
func (s *Server) decline(p *process, b []byte, err error) *answer {
	r, _ := parse[request](b)
	s.refused(p, "connection", &request{Op: r.Op &^ opTell}, nil, err)
	a := &answer{}
	a.fail(err, r.Op == opHello || r.Op&opTell != 0)
	return a
}

// answer carries out a request, which came with descriptors.
func (s *Server) answer(p *process, e *exchange, b []byte, fds []int) *answer {
	a := &answer{exchange: e}
	r, ok := parse[request](b)
	if !ok || r.Version != protocol {
		return s.decline(p, b, refuse(syscall.EPROTO, reason.ClientProtocol, protocol, uint64(r.Version)))
	}
	name, data := "server", b[requestLen:]
	tell := r.Op&opTell != 0
	r.Op &^= opTell
	var err error
	switch r.Op {
	case opOpen:
		name = string(data)
		err = s.open(p, name, r.Arg[1], a)
	case opNetlink:
		name = "netlink"
		err = s.netlink(p, a)
	case opHello:
		if err = s.hello(p, r.Arg[0], a); err != nil {
			return s.decline(p, b, err)
		}
	default:
		s.mu.Lock()
		f := s.files[r.File]
		s.mu.Unlock()
		if f == nil {
			err = syscall.EIO // of a server that is gone
			break
		}
		name = f.name
		if r.Op == opClose {
			err = f.leave(p)
		} else {
			err = f.call(p, &r, data, fds, a)
		}
	}
	if err != nil {
		s.refused(p, name, &r, data, err)
		flags := a.Flags
		a.fail(err, tell)
		a.Flags = flags
	}
	return a
}
