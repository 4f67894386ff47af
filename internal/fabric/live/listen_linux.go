package live

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/link/fabric"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/reason"
)

// listen makes the socket. A fabric of the same name that runs is refused, the socket of one
// that has ended is replaced.
func (f *Fabric) listen() error {
	dir := f.config.Directory
	if dir == "" {
		dir = attach.Directory()
	}
	err := os.MkdirAll(filepath.Dir(dir), 0o755)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: set SOFTRDMA_FABRIC_DIR to a directory that this user may write", err)
	}
	f.path = filepath.Join(dir, f.config.Name)
	if runs(f.path) {
		return fmt.Errorf("%s: a fabric of this name runs already: choose another one by --name", f.path)
	}
	hidden := filepath.Join(dir, fmt.Sprintf(".%s.%d", f.config.Name, os.Getpid()))
	_ = os.Remove(hidden)
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: hidden, Net: "unixpacket"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	if err := os.Rename(hidden, f.path); err != nil {
		return errors.Join(err, l.Close(), os.Remove(hidden))
	}
	f.listener = l
	return nil
}

// runs reports whether a process listens on a socket. A socket of another type tells without
// waking it: the connect then fails with EPROTOTYPE.
func runs(path string) bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: path}) == unix.EPROTOTYPE
}

// unpublish removes the socket.
func (f *Fabric) unpublish() { _ = os.Remove(f.path) }

// The limits on connections that have no port yet.
const (
	maxWaiting = 64
	helloTime  = 5 * time.Second
)

// accept serves the connections.
func (f *Fabric) accept() {
	waiting := make(chan struct{}, maxWaiting)
	for {
		c, err := f.listener.AcceptUnix()
		if err != nil {
			select {
			case <-f.closing:
				return
			case <-time.After(100 * time.Millisecond): // no descriptors are left
			}
			continue
		}
		conn := attach.NewConn(c)
		if !f.enter(conn) {
			_ = c.Close()
			return
		}
		select {
		case waiting <- struct{}{}:
		case <-f.closing:
		}
		f.serving.Go(func() {
			defer f.leave(conn)
			f.serve(conn, nil, func() { <-waiting })
		})
	}
}

// enter notes a connection, which Close ends. It reports false if the fabric has ended.
func (f *Fabric) enter(c *attach.Conn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.closing:
		return false
	default:
	}
	f.conns[c] = true
	return true
}

func (f *Fabric) leave(c *attach.Conn) {
	_ = c.Close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, c)
}

// serve serves a connection until its end. begun is called once, when its first message was
// handled. v is nil for a program on this host.
func (f *Fabric) serve(c *attach.Conn, v *visit, begun func()) {
	a, err := f.first(c, v)
	begun()
	if err != nil {
		_ = c.Send(attach.Protocol.Refusal(err))
	}
	if a == nil {
		return
	}
	for f.receive(c, a) == nil {
	}
	f.call(func() { f.detach(a) })
	_ = a.free()
}

// first handles the first message of a connection.
func (f *Fabric) first(c *attach.Conn, v *visit) (*attachment, error) {
	_ = c.SetDeadline(time.Now().Add(helloTime))
	b, fds, err := c.Receive()
	defer fds.Close()
	if err != nil {
		return nil, err
	}
	switch k := attach.Kind(b[0]); {
	case (k == attach.Command || k == attach.End) && v != nil:
		return nil, reason.NotSupported("commands of a fabric: expected them on its own host")
	case k == attach.Command && len(fds) == 0:
		return nil, f.command(c, b[1:])
	case k == attach.Find && len(fds) == 0:
		return nil, f.find(c, b)
	case k == attach.End && len(fds) == 0:
		return nil, f.end(c)
	case k != attach.Hello || len(fds) != 1:
		return nil, reason.Detail{Reason: reason.FabricMessage, Expected: uint64(attach.Hello), Found: uint64(k)}.Err()
	}
	var h attach.HelloBody
	if err := attach.Protocol.Parse(b, &h); err != nil {
		return nil, err
	}
	if h.Version != attach.Version {
		return nil, reason.Detail{Reason: reason.FabricMessage, Expected: attach.Version, Found: uint64(h.Version)}.Err()
	}
	k := f.network.kind()
	if h.Network != k {
		return nil, refused(&h, 0, fmt.Errorf("fabric %s is %v: expected a device of it, %s", f.config.Name, k, prefixes[k]+attach.Address{Fabric: f.config.Name, Node: h.Node, Port: h.Port}.String()))
	}
	if !h.Service.Valid() || k != attach.Ethernet && h.Service != 0 || h.Share != nil && !sharable(h.Service) {
		return nil, reason.Detail{Reason: reason.FabricMessage, Expected: uint64(hostport.WholeFrames), Found: uint64(h.Service)}.Err()
	}
	return f.welcome(c, &h, v, fds.Take(0))
}

// sharable reports whether programs may share a service: its packets name queue pairs.
func sharable(s hostport.Service) bool { return s == hostport.Datagrams || s == hostport.RoCEFrames }

// prefixes begin the names of devices.
var prefixes = map[attach.Network]string{attach.InfiniBand: "ib:", attach.Ethernet: "eth:"}

// deviceName is how programs name the device of an attached program.
func (f *Fabric) deviceName(a *attachment) string {
	prefix, name := prefixes[f.network.kind()], attach.Address{Fabric: f.config.Name, Node: f.names[a.at.Node], Port: uint8(a.at.Port)}
	if a.service.addr.Is6() {
		name.Node = a.service.addr.String()
	}
	switch a.service.kind {
	case hostport.WholeFrames:
		return hostport.Tap
	case hostport.RoCEFrames:
		prefix = "roce1:" + prefix
	case hostport.Segments:
		prefix = "iwarp:" + prefix
	}
	return prefix + name.String()
}

// welcome attaches a program to the port that it asks for. It owns the descriptor of the
// program's bell.
func (f *Fabric) welcome(c *attach.Conn, h *attach.HelloBody, v *visit, bell int) (*attachment, error) {
	ringer, err := hostmem.OpenRinger(bell, attach.OtherUser(c))
	if err != nil {
		return nil, err
	}
	at, own, err := f.findPort(h)
	share := &wholePort
	if h.Share != nil && err == nil {
		share, err = h.Share, checkShare(h.Share)
	}
	if err != nil {
		return nil, errors.Join(err, ringer.Close())
	}
	end, err := fabric.NewEnd(h.Network.Headers())
	if err != nil {
		return nil, errors.Join(err, ringer.Close())
	}
	_ = c.SetDeadline(time.Time{})
	c.LeavePoller()
	a := &attachment{fabric: f, at: at, service: own, share: *share, visit: v, ringer: ringer, outbox: newOutbox(c), end: end, gone: make(chan struct{})}
	if v == nil {
		a.pid, _ = c.Peer()
	}
	if a.bell, err = f.bells.Add(a); err != nil {
		return nil, errors.Join(err, ringer.Close(), end.Close())
	}
	info, err := f.take(a)
	if err != nil {
		a.bell.Close()
		return nil, errors.Join(err, ringer.Close(), end.Close())
	}
	welcomed := make(chan struct{})
	f.serving.Go(func() { // all that serves the program runs when it is welcomed
		<-welcomed
		a.outbox.run()
	})
	defer close(welcomed)
	m, err := attach.Protocol.Message(attach.Welcome, attach.InfoBody{Info: info})
	if err == nil {
		err = c.SendBell(m, a.bell, end.FD())
	}
	_ = end.CloseFD()
	a.outbox.open()
	if err != nil {
		a.outbox.close() // serve detaches it
	}
	return a, nil
}

// take gives a port to a program. If the port's last program has ended, but the loop does not
// know yet, take waits until it does.
func (f *Fabric) take(a *attachment) (info attach.Info, err error) {
	for {
		var held *attachment
		err = net.ErrClosed
		f.call(func() { info, held, err = f.attach(a) })
		if held == nil || !held.outbox.conn.HungUp() {
			return info, err
		}
		select {
		case <-held.gone:
		case <-f.ended:
			return info, err
		}
	}
}

// refused says why a program does not get the port that it asks for.
func refused(h *attach.HelloBody, ports int, why error) error {
	return &reason.Error{Detail: reason.Detail{Reason: reason.FabricNode, Expected: uint64(ports), Found: uint64(h.Port)}, Text: why.Error(), Cause: why}
}

// receive handles a message of an attached program.
func (f *Fabric) receive(c *attach.Conn, a *attachment) error {
	b, fds, err := c.Receive()
	fds.Close()
	if err != nil {
		return err
	}
	return f.network.message(a, attach.Kind(b[0]), b)
}

// find answers which port has an IP address.
func (f *Fabric) find(c *attach.Conn, question []byte) error {
	ip, err := attach.ParseAddr(question)
	if err != nil {
		return err
	}
	var port attach.FoundBody
	found := false
	ip = ip.Unmap()
	f.call(func() { port, found = f.network.find(ip) })
	if found {
		return c.Send(port.Message())
	}
	return &reason.Error{
		Detail: reason.Detail{Reason: reason.AddressUnreachable},
		Text:   fmt.Sprintf("no port of fabric %s has the IP address %v", f.config.Name, ip),
	}
}

// end ends the fabric, which closes the connection that asked for it.
func (f *Fabric) end(c *attach.Conn) error {
	if _, uid := c.Peer(); uid != 0 && attach.OtherUser(c) {
		return fmt.Errorf("user %d asks the fabric to end: expected its own user %d, or root: %w", uid, os.Geteuid(), unix.EPERM)
	}
	if f.config.End == nil {
		return reason.NotSupported("this fabric ends with its process only")
	}
	f.config.End()
	<-f.closing
	return nil
}

// partLen is the length of a part of an answer.
const partLen = 32 << 10

// command answers a question.
func (f *Fabric) command(c *attach.Conn, question []byte) error {
	answer, err := f.Ask(question)
	if err != nil {
		return err
	}
	_ = c.SetDeadline(time.Now().Add(helloTime))
	for len(answer) > partLen {
		if err := c.Send(append([]byte{byte(attach.Part)}, answer[:partLen]...)); err != nil {
			return err
		}
		answer = answer[partLen:]
	}
	return c.Send(append([]byte{byte(attach.Last)}, answer...))
}
