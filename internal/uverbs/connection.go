//go:build linux

package uverbs

import (
	"cmp"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"

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

// converse answers the requests of an exchange; with a reason why they are
// refused, one.
func (s *Server) converse(p *process, e *exchange, why error) {
	var m message
	for e.receive(&m) {
		a := &answer{}
		if err := cmp.Or(p.sent(&m), why); err != nil {
			a = s.decline(p, m.data, err)
		} else {
			a = s.answer(p, e, m.data, m.fds)
		}
		m.close()
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

// sent checks that the process that made the connection sent a message, as the
// user that it was then, and that all descriptors came with it.
func (p *process) sent(m *message) error {
	switch {
	case m.from == nil || int(m.from.Pid) != p.pid:
		found := uint64(0)
		if m.from != nil {
			found = uint64(m.from.Pid)
		}
		return refuse(syscall.EPERM, reason.ClientProcess, uint64(p.pid), found)
	case m.from.Uid != p.uid || m.from.Gid != p.gid:
		// What was allowed was allowed to the user that it was.
		return refuse(syscall.EACCES, reason.ClientFile, uint64(p.uid), uint64(m.from.Uid))
	case m.cut && len(m.fds) < maxRights:
		return noDescriptor(syscall.EMFILE)
	case m.cut:
		return refuse(syscall.EINVAL, reason.ClientDescriptors, 1, uint64(len(m.fds)))
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
