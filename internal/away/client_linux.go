package away

import (
	"errors"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"

	"softrdma/internal/adapter"
	"softrdma/internal/iwarp"
	"softrdma/internal/link"
	"softrdma/internal/reason"
	"softrdma/internal/unixmsg"
)

// A Client makes a program drive the streams of its queue pairs.
type Client struct {
	conn *unixmsg.Conn
	dev  *adapter.Device
	hold link.Hold

	// Keep, unless it is nil, takes over the descriptor of the directory for the flight recorder of the
	// program, and the number that the program knows for its process. It is set before Run.
	Keep func(dir, pid int)

	mu      sync.Mutex
	last    uint64
	streams map[uint64]*entry
	ids     map[*adapter.Stream]uint64
	ended   bool
}

type entry struct {
	stream      *adapter.Stream
	established bool
}

var _ adapter.StreamAway = (*Client)(nil)

// NewClient uses a connection to a program, on which the program calls Program.Serve, for a device of
// this process. hold is called for each stream.
func NewClient(conn *net.UnixConn, dev *adapter.Device, hold link.Hold) *Client {
	return &Client{conn: unixmsg.NewConn(conn, &protocol), dev: dev, hold: hold, streams: make(map[uint64]*entry), ids: make(map[*adapter.Stream]uint64)}
}

// Run passes on what the program reports, until the connection ends. The program's streams have
// ended then.
func (c *Client) Run() {
	for {
		message, fds, err := c.conn.Receive()
		if err == nil {
			err = c.do(message, fds)
		}
		if err != nil {
			break
		}
	}
	c.mu.Lock()
	c.ended = true
	left := c.streams
	c.streams = nil
	c.mu.Unlock()
	for _, x := range left {
		x.lost()
	}
}

// do executes a message. It owns the descriptors.
func (c *Client) do(message []byte, fds unixmsg.Descriptors) (err error) {
	switch unixmsg.Kind(message[0]) {
	case event:
		var r report
		if err = protocol.Parse(message, &r); err == nil {
			c.happened(&r)
		}
	case records:
		var m keep
		if err = protocol.Parse(message, &m); err == nil && len(fds) > 0 && c.Keep != nil {
			c.Keep(fds[0], m.PID)
			fds = nil
		}
	case connect:
		var m call
		if err = protocol.Parse(message, &m); err == nil && len(fds) > 0 {
			if adapter.RelayStream(c.dev, fds[0], m.Port, m.Dst, m.TOS, c.hold) == nil {
				fds = nil
			}
		}
	}
	fds.Close()
	return err
}

// happened passes an event of a stream on.
func (c *Client) happened(r *report) {
	s := c.find(r)
	if s == nil {
		return
	}
	e := iwarp.Event{Kind: r.Kind, Agreement: r.Agreement, Private: r.Private, Detail: r.Detail}
	var behind error
	if r.Error != "" {
		behind = errors.New(r.Error)
	}
	s.Report(&e, behind, r.Local)
}

// lost reports that the program has ended.
func (x *entry) lost() {
	e := iwarp.Event{Kind: iwarp.Refused, Detail: reason.Detail{Reason: reason.StreamLost}}
	if x.established {
		e.Kind = iwarp.Closed
	}
	x.stream.Report(&e, nil, netip.AddrPort{})
}

// find returns the stream of a report, nil for one that was given up.
func (c *Client) find(r *report) *adapter.Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.streams[r.ID]
	if x == nil || r.Kind <= iwarp.Requested || r.Kind > iwarp.Closed {
		return nil
	}
	x.established = x.established || r.Kind == iwarp.Established
	return x.stream
}

// begin sends the first message about a stream. If that fails the program has ended, or takes no
// messages.
func (c *Client) begin(s *adapter.Stream, k unixmsg.Kind, m *call, fds ...int) {
	c.mu.Lock()
	c.last++
	m.ID = c.last
	x := &entry{stream: s}
	ok := !c.ended && c.send(k, m, fds...)
	if ok {
		c.streams[m.ID], c.ids[s] = x, m.ID
	}
	c.mu.Unlock()
	if !ok {
		go x.lost() // the caller has the lane
	}
}

// send sends a message without waiting, and reports whether that succeeded.
func (c *Client) send(k unixmsg.Kind, m *call, fds ...int) bool {
	b, err := protocol.Message(k, m)
	return err == nil && c.conn.TrySend(b, fds...)
}

// Hold implements adapter.StreamAway.
func (c *Client) Hold() (release func(), err error) { return c.hold() }

// Dial implements adapter.StreamAway.
func (c *Client) Dial(s *adapter.Stream, cfg *adapter.DialConfig) {
	c.begin(s, dial, &call{QPN: cfg.QPN, Dst: cfg.Dst, Port: cfg.Port, TOS: cfg.TOS, Params: &cfg.Params})
}

// Accept implements adapter.StreamAway.
func (c *Client) Accept(s *adapter.Stream, qpn uint32, p *iwarp.Params, request []byte, fd int) {
	c.begin(s, accept, &call{QPN: qpn, Params: p, Request: request}, fd)
	_ = unix.Close(fd)
}

// Disconnect implements adapter.StreamAway.
func (c *Client) Disconnect(s *adapter.Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := c.ids[s]; id != 0 && !c.ended {
		c.send(disconnect, &call{ID: id})
	}
}

// Release implements adapter.StreamAway.
func (c *Client) Release(s *adapter.Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.ids[s]
	delete(c.ids, s)
	delete(c.streams, id)
	if id != 0 && !c.ended {
		c.send(release, &call{ID: id})
	}
}
