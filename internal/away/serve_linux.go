package away

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"softrdma/internal/adapter"
	"softrdma/internal/iwarp"
	"softrdma/internal/reason"
)

// A program drives streams for a Client.
type program struct {
	conn    *net.UnixConn
	dev     *adapter.Device
	streams map[uint64]*adapter.Stream

	mu      sync.Mutex
	reports [][]byte // that flush is to send
	sending bool
}

// Serve drives streams of a device for the Client at the other end of a connection, until that
// ends. The streams go on then.
func Serve(conn *net.UnixConn, dev *adapter.Device) {
	p := &program{conn: conn, dev: dev, streams: make(map[uint64]*adapter.Stream)}
	buffer := make([]byte, maxMessage)
	for {
		var m call
		fd, err := receive(conn, buffer, &m)
		if err == nil {
			p.do(&m, fd)
			continue
		}
		if fd >= 0 {
			_ = unix.Close(fd)
		}
		return
	}
}

// do carries out a message. It owns the descriptor.
func (p *program) do(m *call, fd int) {
	s := p.streams[m.ID]
	switch {
	case m.Op == accept && fd >= 0 && m.Params != nil:
		p.begin(m, func(handler func(*adapter.StreamEvent)) (*adapter.Stream, error) {
			return adapter.AdoptStream(p.dev, fd, m.Request, m.QPN, m.Params, handler)
		})
		return
	case m.Op == dial && m.Params != nil:
		p.begin(m, func(handler func(*adapter.StreamEvent)) (*adapter.Stream, error) {
			return p.dev.Dial(&adapter.DialConfig{Port: m.Port, Dst: m.Dst, TOS: m.TOS, QPN: m.QPN, Params: *m.Params}, handler)
		})
	case m.Op == disconnect && s != nil:
		_ = s.Disconnect() // its end is an event
	case m.Op == release && s != nil:
		s.Release()
		delete(p.streams, m.ID)
	}
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

// begin makes a stream and reports why it cannot.
func (p *program) begin(m *call, open func(func(*adapter.StreamEvent)) (*adapter.Stream, error)) {
	id := m.ID
	s, err := open(func(e *adapter.StreamEvent) { p.event(id, e) })
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

// event reports an event. It is called with the lane held, and does not wait.
func (p *program) event(id uint64, e *adapter.StreamEvent) {
	if e.Kind == iwarp.Requested { // the server has seen the request
		return
	}
	r := report{ID: id, Kind: e.Kind, Agreement: e.Agreement, Private: bytes.Clone(e.Private), Detail: e.Detail, Local: e.On.Local()}
	if e.Err != nil {
		r.Error = e.Err.Error()
	}
	p.tell(&r)
}

func (p *program) tell(r *report) {
	b, err := json.Marshal(r)
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
func (p *program) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.reports) > 0 {
		b := p.reports[0]
		p.reports = p.reports[1:]
		p.mu.Unlock()
		_, _ = p.conn.Write(b) // a server that has ended wants none
		p.mu.Lock()
	}
	p.reports, p.sending = nil, false
}
