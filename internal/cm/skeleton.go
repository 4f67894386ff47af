package cm

import (
	"errors"
	"net/netip"
	"time"

	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

var errNotYet = errors.New("cm: not yet")

// Config is what a Manager is made of.
type Config struct {
	GUID     uint64         // Local CA GUID
	Local    netip.AddrPort // the device's address and UDP port
	MTU      int            // active MTU, bytes
	AckDelay uint8          // Local CA ACK Delay: 4.096 µs times 2 to its power
	Random   func() uint32  // communication ids, transaction ids, PSNs
	Refuse   func(reason.Detail)
}

// A Datagram is a management datagram to send from queue pair 1 to the peer's.
type Datagram struct {
	Path qp.Path
	MAD  [mad.Len]byte
}

// A Manager is the communication manager of one device.
type Manager struct{}

// Count tells what a Manager holds.
type Count struct{ Conns, Detached, Lookups, Inquiries, Listeners, Queued int }

func New(c Config) *Manager                                                           { return &Manager{} }
func (m *Manager) SetHandler(f func(*Event))                                          {}
func (m *Manager) Count() Count                                                       { return Count{} }
func (m *Manager) Receive(now time.Duration, src netip.AddrPort, tos uint8, b []byte) {}
func (m *Manager) Next(now time.Duration, out *Datagram) bool                         { return false }
func (m *Manager) Deadline() time.Duration                                            { return machine.Never }
func (m *Manager) Expire(now time.Duration)                                           {}

// A Listener hears requests for one service ID.
type Listener struct {
	Context any
	Backlog int // requests that may wait for Accept or Reject, 0 for no limit; more are dropped
}

func (m *Manager) Listen(now time.Duration, sid mad.ServiceID) (*Listener, error) {
	return nil, errNotYet
}
func (l *Listener) Service() mad.ServiceID { return 0 }
func (l *Listener) Close()                 {}

// A Conn is one end of a connection.
type Conn struct{ Context any }

func (m *Manager) Connect(now time.Duration, p *ConnectParams) (*Conn, error) { return nil, errNotYet }
func (c *Conn) Accept(now time.Duration, p *AcceptParams) error               { return errNotYet }
func (c *Conn) Ready(now time.Duration, private []byte) error                 { return errNotYet }
func (c *Conn) Reject(now time.Duration, r mad.RejectReason, ari, private []byte) error {
	return errNotYet
}
func (c *Conn) Delay(now time.Duration, serviceTimeout uint8, private []byte) error { return errNotYet }
func (c *Conn) Establish(now time.Duration) error                                   { return errNotYet }
func (c *Conn) Disconnect(now time.Duration, private []byte) error                  { return errNotYet }
func (c *Conn) DisconnectReply(now time.Duration, private []byte) error             { return errNotYet }
func (c *Conn) Destroy(now time.Duration)                                           {}
func (c *Conn) Attr(to qp.State) (qp.Mask, qp.Attr, error)                          { return 0, qp.Attr{}, errNotYet }
func (c *Conn) State() State                                                        { return 0 }
func (c *Conn) LocalID() uint32                                                     { return 0 }
func (c *Conn) RemoteID() uint32                                                    { return 0 }
func (c *Conn) LocalQPN() uint32                                                    { return 0 }
func (c *Conn) RemoteQPN() uint32                                                   { return 0 }
func (c *Conn) Service() mad.ServiceID                                              { return 0 }
func (c *Conn) Type() qp.Type                                                       { return 0 }
func (c *Conn) Path() qp.Path                                                       { return qp.Path{} }

// A Lookup is a question for the queue pair that serves a service ID.
type Lookup struct{ Context any }

func (m *Manager) Resolve(now time.Duration, p *SIDRParams) (*Lookup, error) { return nil, errNotYet }
func (l *Lookup) Path() qp.Path                                              { return qp.Path{} }
func (l *Lookup) Destroy(now time.Duration)                                  {}

// An Inquiry is a peer's Lookup that waits for Reply.
type Inquiry struct{ Context any }

func (r *Inquiry) Reply(now time.Duration, p *SIDRReply) error { return errNotYet }
func (r *Inquiry) Path() qp.Path                               { return qp.Path{} }
func (r *Inquiry) Destroy(now time.Duration)                   {}
