package away

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"softrdma/internal/adapter"
	"softrdma/internal/iwarp"
	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
)

// A Program drives streams for a Client.
type Program struct {
	conn    *unixmsg.Conn
	dev     *adapter.Device
	streams map[uint64]*adapter.Stream

	mu      sync.Mutex
	reports [][]byte // that flush is to send
	sending bool
}

// NewProgram uses a connection to a Client.
func NewProgram(conn *net.UnixConn) *Program {
	return &Program{conn: unixmsg.NewConn(conn, &protocol), streams: make(map[uint64]*adapter.Stream)}
}

// Connect is a tcp.Connect: it asks the server for a connection.
func (p *Program) Connect(fd int, port uint16, dst netip.AddrPort, tos uint8) error {
	b, err := protocol.Message(connect, &call{Dst: dst, Port: port, TOS: tos})
	if err == nil && !p.conn.TrySend(b, fd) {
		err = fmt.Errorf("the server, which has the keys of TLS, takes no requests: %w", syscall.EAGAIN)
	}
	return err
}

// Keep tells the server the directory into which it writes the program's flight recorder if the program
// ends without leaving. A server that has ended, or takes no messages, is not told.
func (p *Program) Keep(dir int) {
	if b, err := protocol.Message(records, &keep{PID: os.Getpid()}); err == nil {
		p.conn.TrySend(b, dir)
	}
}

// Serve drives streams of a device until the connection ends. The streams stay as they are then.
func (p *Program) Serve(dev *adapter.Device) {
	p.dev = dev
	for {
		var m call
		message, fds, err := p.conn.Receive()
		if err == nil {
			err = protocol.Parse(message, &m)
		}
		if err != nil {
			fds.Close()
			return
		}
		p.do(unixmsg.Kind(message[0]), &m, fds)
	}
}

// do executes a message. It owns the descriptors.
func (p *Program) do(k unixmsg.Kind, m *call, fds unixmsg.Descriptors) {
	s := p.streams[m.ID]
	switch {
	case k == accept && len(fds) > 0 && m.Params != nil:
		p.begin(m, func(handler func(*adapter.StreamEvent)) (*adapter.Stream, error) {
			return adapter.AdoptStream(p.dev, fds[0], m.Request, m.QPN, m.Params, handler)
		})
		return
	case k == dial && m.Params != nil:
		p.begin(m, func(handler func(*adapter.StreamEvent)) (*adapter.Stream, error) {
			return p.dev.Dial(&adapter.DialConfig{Port: m.Port, Dst: m.Dst, TOS: m.TOS, QPN: m.QPN, Params: *m.Params}, handler)
		})
	case k == disconnect && s != nil:
		_ = s.Disconnect() // its end is an event
	case k == release && s != nil:
		s.Release()
		delete(p.streams, m.ID)
	}
	fds.Close()
}

// begin makes a stream and reports why it cannot.
func (p *Program) begin(m *call, open func(func(*adapter.StreamEvent)) (*adapter.Stream, error)) {
	id := m.ID
	s, err := open(func(e *adapter.StreamEvent) { p.happened(id, e) })
	if err == nil {
		p.streams[id] = s
		return
	}
	r := report{ID: id, Kind: iwarp.Refused, Error: err.Error(), Detail: reason.Detail{Reason: reason.ConnectFailed, Expected: uint64(m.Dst.Port())}}
	var named *reason.Error
	var no syscall.Errno
	switch {
	case errors.As(err, &named):
		r.Detail = named.Detail
	case errors.As(err, &no):
		r.Detail.Found = uint64(no)
	}
	p.tell(&r)
}

// happened reports an event. It is called with the lane held, and does not wait.
func (p *Program) happened(id uint64, e *adapter.StreamEvent) {
	if e.Kind == iwarp.Requested { // the server has seen the request
		return
	}
	r := report{ID: id, Kind: e.Kind, Agreement: e.Agreement, Private: bytes.Clone(e.Private), Detail: e.Detail, Local: e.On.Local()}
	if e.Err != nil {
		r.Error = e.Err.Error()
	}
	p.tell(&r)
}

func (p *Program) tell(r *report) {
	b, err := protocol.Message(event, r)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports = append(p.reports, b)
	if !p.sending {
		p.sending = true
		go p.flush()
	}
}

// flush sends the reports that wait.
func (p *Program) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.reports) > 0 {
		b := p.reports[0]
		p.reports = p.reports[1:]
		p.mu.Unlock()
		_ = p.conn.Send(b) // a server that has ended wants none
		p.mu.Lock()
	}
	p.reports, p.sending = nil, false
}
