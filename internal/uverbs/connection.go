//go:build linux

package uverbs

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/reason"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/wire/uapi"
)

// listen creates the server's socket with its mode.
func listen(path string, mode fs.FileMode) (*net.UnixListener, error) {
	if mode == 0 {
		mode = 0o600
	}
	// A program may connect as soon as the socket has a name.
	cfg := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error { return passCredentials(raw) }}
	ln, err := cfg.Listen(context.Background(), "unixpacket", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln.(*net.UnixListener), nil
}

// passCredentials makes the system add the sender to each message. Accepted sockets
// inherit that.
func passCredentials(raw syscall.RawConn) error {
	var e error
	if err := raw.Control(func(fd uintptr) { e = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) }); err != nil {
		return err
	}
	return e
}

// converse answers the requests of an exchange. If why is not nil it refuses the first
// one for that reason, and ends.
func (s *Server) converse(p *client.Process, e *exchange, why error) {
	var m message
	for e.receive(&m) {
		a := &client.Answer{}
		if err := cmp.Or(checkSender(p, &m), why); err != nil {
			a = s.decline(p, m.data, err)
		} else {
			a = s.answer(p, e, m.data)
		}
		ok := a.Sent || e.Send(a)
		a.Close()
		if !ok || why != nil {
			return
		}
	}
}

// checkSender checks that the process that made the connection sent the message,
// as the same user as then, and that no descriptors came with it.
func checkSender(p *client.Process, m *message) error {
	switch {
	case m.from == nil || int(m.from.Pid) != p.PID:
		found := uint64(0)
		if m.from != nil {
			found = uint64(m.from.Pid)
		}
		return client.Refuse(syscall.EPERM, reason.ClientProcess, uint64(p.PID), found)
	case m.from.Uid != p.UID || m.from.Gid != p.GID:
		return client.Refuse(syscall.EACCES, reason.ClientFile, uint64(p.UID), uint64(m.from.Uid))
	case m.cut:
		return client.Refuse(syscall.EINVAL, reason.ClientDescriptors, 0, 1)
	}
	return nil
}

// decline refuses any request.
func (s *Server) decline(p *client.Process, b []byte, err error) *client.Answer {
	r, _ := uapi.Parse[uapi.Request](b)
	s.runtime.Refusals.Call(p, "connection", &uapi.Request{Op: r.Op &^ uapi.OpTell}, nil, err)
	a := &client.Answer{}
	a.Fail(err, r.Op == uapi.OpHello || r.Op&uapi.OpTell != 0)
	return a
}

// answer executes a request.
func (s *Server) answer(p *client.Process, e *exchange, b []byte) *client.Answer {
	a := &client.Answer{Sender: e}
	r, ok := uapi.Parse[uapi.Request](b)
	if !ok || r.Version != uapi.Protocol {
		return s.decline(p, b, client.Refuse(syscall.EPROTO, reason.ClientProtocol, uapi.Protocol, uint64(r.Version)))
	}
	name, data := "server", b[uapi.RequestLen:]
	tell := r.Op&uapi.OpTell != 0
	r.Op &^= uapi.OpTell
	var err error
	switch r.Op {
	case uapi.OpOpen:
		name = string(data)
		err = s.open(p, name, r.Arg[1], a)
	case uapi.OpNetlink:
		name = "netlink"
		err = s.netlink(p, a)
	case uapi.OpSlot:
		name = string(data)
		err = s.slot(p, name, r.Arg[0], a)
	case uapi.OpCounters:
		name = "counters"
		err = s.refresh(counterLife)
	case uapi.OpHello:
		p.Looks.Store(r.Arg[1] == uapi.HelloLooks)
		if err = s.hello(p, r.Arg[0], a); err != nil {
			return s.decline(p, b, err)
		}
	default:
		f := s.files.Find(r.File)
		if f == nil {
			err = syscall.EIO // the file has ended
			break
		}
		name = f.Name
		if r.Op == uapi.OpClose {
			err = f.CloseBy(p)
		} else {
			err = f.Call(p, &r, data, a)
		}
	}
	if err != nil {
		s.runtime.Refusals.Call(p, name, &r, data, err)
		flags := a.Flags
		a.Fail(err, tell)
		a.Flags = flags
	}
	return a
}
