package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"softrdma/verbs"
)

// A Request is a peer's request for a connection, or in PortSpaceUDP for a queue pair. The
// program must accept or reject it.
type Request struct {
	end   *end
	cfg   *ListenConfig
	param ConnParam

	mu    sync.Mutex
	ended bool // accepted or rejected
}

// Device returns the device that the request arrived on.
func (r *Request) Device() *verbs.Device { return r.end.id.Device() }

// PD returns the request's own protection domain. The first call makes it. It is
// deallocated with the request or connection.
func (r *Request) PD() (*verbs.PD, error) { return r.end.id.PD() }

// CreateQP makes the queue pair, in INIT, where receives can be posted; in
// PortSpaceUDP in RTS. A nil pd means the request's own. Cfg is like
// ListenConfig.QP.
func (r *Request) CreateQP(pd *verbs.PD, cfg verbs.QPConfig) (*verbs.QP, error) {
	return r.end.id.CreateQP(pd, cfg)
}

// SendCQ returns the completion queue of sends that CreateQP made, or nil if the configuration
// had one.
func (r *Request) SendCQ() *verbs.CQ { return r.end.id.SendCQ() }

// RecvCQ returns the completion queue of receives that CreateQP made, or nil if the
// configuration had one.
func (r *Request) RecvCQ() *verbs.CQ { return r.end.id.RecvCQ() }

// PrivateData returns the peer's private data, padded with zeros.
func (r *Request) PrivateData() []byte { return r.param.PrivateData }

// Param returns the peer's parameters from this side's view: ResponderResources is
// how many READs and atomics the peer asks to have in flight.
func (r *Request) Param() ConnParam { return r.param }

// LocalAddr returns the address and port that the peer dialled.
func (r *Request) LocalAddr() netip.AddrPort { return r.end.id.LocalAddr() }

// RemoteAddr returns the peer's address and port.
func (r *Request) RemoteAddr() netip.AddrPort { return r.end.id.RemoteAddr() }

// Accept accepts the request and waits until the peer is ready. If CreateQP was not
// called it makes the queue pair from ListenConfig.QP. In PortSpaceUDP it does not
// wait. After an error the request is destroyed.
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

// take gives the caller the right to answer the request. It fails if the request was answered.
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
	err := id.Accept(p)
	if text := pathRefusal(err); text != "" {
		_ = id.Reject([]byte(text[:min(len(text), MaxPrivateReject)])) // tells the peer why
	}
	return err
}

// pathRefusal returns the named reason of an error that means that this side requires a path
// through memory and there is none, else "".
func pathRefusal(err error) string {
	var why verbs.ReasonError
	if !errors.As(err, &why) || !strings.HasPrefix(why.Reason(), "HOST_") {
		return ""
	}
	return why.Reason() + ": " + why.Error()
}

func (r *Request) conn() *Conn { return &Conn{end: r.end, param: r.param} }

// release destroys the request and its queue pair. It rejects a peer that waits.
func (r *Request) release() error { return events.release(r.end.id) }

// Reject rejects the request with up to MaxPrivateReject bytes of private data, in
// PortSpaceUDP MaxPrivateAnswer. With more it fails and does not change the
// request. It is no error if the peer no longer waits or the device was closed.
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
	_ = r.end.id.Reject(private) // fails if the peer no longer waits
	return r.release()
}
