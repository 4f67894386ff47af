package attach

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/internal/link/fabric"
	"softrdma/internal/link/hostmem"
	"softrdma/internal/reason"
)

// answerTime bounds the wait for a fabric's answer to a port that attaches again.
const answerTime = 5 * time.Second

// dial connects to a fabric, by its socket or on another host: at a place, or where this user's
// fabrics are if that is nil. A fabric on another host is one of a network. When ctx ends, so does what waits on the connection, until stop.
func dial(ctx context.Context, name string, n Network, at *Place) (c *Conn, stop func() bool, err error) {
	if name, host, remote := strings.Cut(name, "@"); remote {
		if c, err = dialHost(ctx, name, host, n, at); err != nil {
			return nil, nil, err
		}
		return c, context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }), nil
	}
	places := directories()
	if at != nil {
		places = []string{at.Directory}
	}
	for i, dir := range places {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unixpacket", filepath.Join(dir, name))
		if err == nil {
			c := NewConn(conn.(*net.UnixConn))
			c.place.Directory, _ = filepath.Abs(dir) // fails without a working directory
			return c, context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) }), nil
		}
		switch {
		case notOurs(dir, err):
			places[i] += ", without permission"
		case !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ECONNREFUSED):
			return nil, nil, err
		}
	}
	return nil, nil, &reason.Error{
		Detail: reason.Detail{Reason: reason.FabricAbsent, Expected: 1}, Cause: syscall.ENOENT,
		Text: fmt.Sprintf("no fabric %q runs (looked in %s): start it with softrdma fabric up --name %s", name, strings.Join(places, " and "), name),
	}
}

// attach connects to the fabric and takes the port.
func (p *Port) attach(ctx context.Context) (err error) {
	var at *Place
	if p.share != nil {
		at = p.share.Place
	}
	c, stop, err := dial(ctx, p.address.Fabric, p.network, at)
	if err != nil {
		return err
	}
	defer stop()
	bell, err := p.link.NewBell()
	if err != nil {
		return errors.Join(err, c.Close())
	}
	end, ringer, m, err := p.shakeHands(c, bell)
	if err != nil {
		_ = c.Close()
		bell.Close()
		return errors.Join(ctx.Err(), err)
	}
	stop()
	_ = c.SetDeadline(time.Time{})
	c.LeavePoller()
	c.CloseInChildren() // one of them would keep the port
	p.mu.Lock()
	p.conn, p.bell, p.relay, p.place = c, bell, c.relay, c.place
	sm := p.sm
	p.mu.Unlock()
	if p.life.Err() != nil { // Close may have looked for a connection already
		_ = c.Close()
	}
	p.link.Connect(end, ringer)
	p.joinAgain(c)
	p.update(m)
	if sm {
		_ = c.Send(setSM(true))
	}
	return nil
}

// shakeHands asks for the port and opens the rings.
func (p *Port) shakeHands(c *Conn, bell *hostmem.Bell) (end *fabric.End, ringer *hostmem.Ringer, m *InfoBody, err error) {
	if err := p.sayHello(c, bell); err != nil {
		return nil, nil, nil, err
	}
	b, fds, err := c.Expect(Welcome, 2)
	if err != nil {
		return nil, nil, nil, err
	}
	m = new(InfoBody)
	if err = Protocol.Parse(b, m); err == nil {
		end, err = fabric.OpenEnd(fds[0], p.network.Headers())
	}
	_ = unix.Close(fds[0])
	if err != nil {
		return nil, nil, nil, errors.Join(err, unix.Close(fds[1]))
	}
	if ringer, err = hostmem.OpenRinger(fds[1], OtherUser(c)); err != nil {
		return nil, nil, nil, errors.Join(err, end.Close())
	}
	return end, ringer, m, nil
}

// sayHello sends the first message, with the bell for the fabric's process.
func (p *Port) sayHello(c *Conn, bell *hostmem.Bell) error {
	hello, err := Protocol.Message(Hello, HelloBody{Version: Version, Node: p.address.Node, Port: p.address.Port, Program: filepath.Base(os.Args[0]), Network: p.network, Service: p.service, Share: p.share})
	if err != nil {
		return err
	}
	return c.SendBell(hello, bell)
}

// maxAnswer bounds the answer to a command in bytes.
const maxAnswer = 256 << 20

// Do asks a fabric a question and returns the answer.
func Do(ctx context.Context, name string, question []byte) (answer []byte, err error) {
	if len(question) >= MaxMessage {
		return nil, malformed(MaxMessage-1, uint64(len(question)))
	}
	c, stop, err := dial(ctx, name, InfiniBand, nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer stop()
	if err := checkRuns(name, c); err != nil {
		return nil, err
	}
	if err := c.Send(append([]byte{byte(Command)}, question...)); err != nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	for {
		b, fds, err := c.Receive()
		fds.Close()
		switch {
		case err != nil:
			return nil, errors.Join(ctx.Err(), err)
		case Kind(b[0]) == Refused:
			return nil, Protocol.ParseRefusal(b)
		case Kind(b[0]) != Part && Kind(b[0]) != Last:
			return nil, malformed(uint64(Last), uint64(b[0]))
		case len(answer) > maxAnswer:
			return nil, malformed(maxAnswer, uint64(len(answer)))
		}
		answer = append(answer, b[1:]...)
		if Kind(b[0]) == Last {
			return answer, nil
		}
	}
}

// checkRuns refuses a fabric whose process is stopped: its socket is there, and no process answers.
func checkRuns(name string, c *Conn) error {
	pid, _ := c.Peer()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil { // on another host, or another user's
		return nil
	}
	// The state follows the name of the program in parentheses (proc(5)).
	if state := strings.TrimSpace(string(b[bytes.LastIndexByte(b, ')')+1:])); !strings.HasPrefix(state, "T") && !strings.HasPrefix(state, "t") {
		return nil
	}
	return &reason.Error{
		Detail: reason.Detail{Reason: reason.FabricGone, Expected: 1}, Cause: context.DeadlineExceeded,
		Text: fmt.Sprintf("fabric %s does not answer: its process %d is stopped, and kill -CONT %d lets it run again", name, pid, pid),
	}
}

// Down ends a fabric, and returns when its name is free.
func Down(ctx context.Context, name string) error {
	c, stop, err := dial(ctx, name, InfiniBand, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	defer stop()
	if err := checkRuns(name, c); err != nil {
		return err
	}
	if err := c.Send([]byte{byte(End)}); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	_, _, err = c.Expect(Refused, 0)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET):
		return nil // the fabric has closed its connections
	}
	return err
}

// FindGID asks the fabric for the GID of the port with an IP address.
func (p *Port) FindGID(ctx context.Context, ip netip.Addr) (netip.Addr, error) {
	f, err := p.find(ctx, ip)
	return netip.AddrFrom16(f.GID), err
}

// find asks the fabric for the port with an IP address.
func (p *Port) find(ctx context.Context, ip netip.Addr) (f FoundBody, err error) {
	c, stop, err := dial(ctx, p.address.Fabric, p.network, p.Place())
	if err != nil {
		return f, err
	}
	defer c.Close()
	defer stop()
	if err := checkRuns(p.address.Fabric, c); err != nil {
		return f, err
	}
	if err := c.Send(AddrMessage(Find, ip)); err != nil {
		return f, errors.Join(ctx.Err(), err)
	}
	m, _, err := c.Expect(Found, 0)
	if err != nil {
		return f, errors.Join(ctx.Err(), err)
	}
	return f, f.parse(m)
}
