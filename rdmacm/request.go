package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"softrdma/verbs"
)

// A Request is a peer that wants to connect, or in PortSpaceUDP asks for a
// queue pair. It must be accepted or rejected.
type Request struct {
	end   *end
	cfg   *ListenConfig
	param ConnParam

	mu    sync.Mutex
	ended bool // accepted or rejected
}

// Device is the device that the request came to.
func (r *Request) Device() *verbs.Device { return r.end.id.Device() }

// PD is the request's own protection domain, made at the first call and
// deallocated with the request or connection.
func (r *Request) PD() (*verbs.PD, error) { return r.end.id.PD() }

// CreateQP makes the queue pair in INIT: receives can be posted. In PortSpaceUDP
// it is in RTS. A nil pd takes the request's own; cfg as ListenConfig.QP.
func (r *Request) CreateQP(pd *verbs.PD, cfg verbs.QPConfig) (*verbs.QP, error) {
	return r.end.id.CreateQP(pd, cfg)
}

// SendCQ is the completion queue of its sends, where CreateQP made it; else nil,
// as RecvCQ.
func (r *Request) SendCQ() *verbs.CQ { return r.end.id.SendCQ() }

// RecvCQ is the completion queue of its receives.
func (r *Request) RecvCQ() *verbs.CQ { return r.end.id.RecvCQ() }

// PrivateData is what the peer sent along, padded with zeros.
func (r *Request) PrivateData() []byte { return r.param.PrivateData }

// Param is what the peer asked for, seen from this side: ResponderResources is
// how many READs and atomics the peer wants to have in flight.
func (r *Request) Param() ConnParam { return r.param }

// LocalAddr is the address and port that the peer called.
func (r *Request) LocalAddr() netip.AddrPort { return r.end.id.LocalAddr() }

// RemoteAddr is the peer's address and port.
func (r *Request) RemoteAddr() netip.AddrPort { return r.end.id.RemoteAddr() }

// Accept accepts the request and waits until the peer is ready; the queue pair
// is made by ListenConfig.QP if CreateQP was not called. In PortSpaceUDP it does
// not wait. On an error the request is gone.
func (r *Request) Accept(ctx context.Context, p ConnParam) (*Conn, error) {
	if err := r.take(); err != nil {
		return nil, fmt.Errorf("accept: %w", err)
	}
	err := r.begin(&p)
	if err == nil && !r.end.id.datagram() {
		var v Event
		v, err = r.end.wait(ctx, "the confirmation of")
		if err == nil && v.Type != EventEstablished {
			err = fmt.Errorf("accept %v: expected %v, found %v", r.RemoteAddr(), EventEstablished, v.Type)
		}
	}
	if err != nil {
		return nil, errors.Join(err, r.release())
	}
	return r.conn(), nil
}

// take makes the request the caller's.
func (r *Request) take() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return fmt.Errorf("request of %v: %w", r.RemoteAddr(), ErrClosed)
	}
	r.ended = true
	return nil
}

// begin makes the queue pair and sends the reply.
func (r *Request) begin(p *ConnParam) error {
	id := r.end.id
	if id.QP() == nil {
		if _, err := id.CreateQP(nil, r.cfg.QP); err != nil {
			return err
		}
	}
	return id.Accept(p)
}

func (r *Request) conn() *Conn { return &Conn{end: r.end, param: r.param} }

// release gives the request up with its queue pair: a peer that waits is
// rejected.
func (r *Request) release() error { return events.release(r.end.id) }

// Reject rejects the request with up to MaxPrivateReject bytes for the peer, in
// PortSpaceUDP MaxPrivateAnswer. More is refused, and the request is as it was. Where
// nobody waits for it any more, or the device is gone, that is no error.
func (r *Request) Reject(private []byte) error {
	limit := MaxPrivateReject
	if r.end.id.datagram() {
		limit = MaxPrivateAnswer
	}
	if err := checkPrivate(private, limit); err != nil {
		return fmt.Errorf("reject %v: %w", r.RemoteAddr(), err)
	}
	if err := r.take(); err != nil {
		return fmt.Errorf("reject: %w", err)
	}
	_ = r.end.id.Reject(private) // refused where nobody waits for it any more
	return r.release()
}
