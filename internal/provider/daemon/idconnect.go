//go:build linux

package daemon

import (
	"fmt"
	"net/netip"

	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/uverbs/uapi"
)

func sockaddr(a netip.AddrPort) (b uapi.SockaddrIn6) {
	uapi.PutAddr(b[:], a)
	return b
}

// Bind implements provider.Addresses.
func (x *id) Bind(local netip.AddrPort) error {
	if err := x.do("bind", uapi.CMBindIP, uapi.Bytes(&uapi.CMBindIPCmd{ID: x.num, Addr: sockaddr(local)})); err != nil {
		return err
	}
	return x.queryAddrs()
}

// ResolveAddr implements provider.Addresses.
func (x *id) ResolveAddr(src, dst netip.AddrPort) error {
	q := uapi.CMResolveIPCmd{ID: x.num, Src: sockaddr(src), Dst: sockaddr(dst)}
	if err := x.do("resolve address", uapi.CMResolveIP, uapi.Bytes(&q)); err != nil {
		return err
	}
	return x.queryAddrs()
}

// ResolveRoute implements provider.Addresses.
func (x *id) ResolveRoute() error {
	return x.do("resolve route", uapi.CMResolveRoute, uapi.Bytes(&uapi.CMPair{ID: x.num}))
}

// Listen implements provider.Addresses.
func (x *id) Listen(backlog int) error {
	q := uapi.CMPair{ID: x.num, Arg: uint32(backlog)}
	if err := x.do("listen", uapi.CMListen, uapi.Bytes(&q)); err != nil {
		return err
	}
	return x.queryAddrs()
}

// LeftOut implements provider.Addresses. It is empty, because the id listens on its
// own device only.
func (x *id) LeftOut() []error { return nil }

// InitQPAttr implements provider.Connection.
func (x *id) InitQPAttr(to qp.State) (qp.Mask, qp.Attr, error) {
	n := uapi.Size[uapi.QPAttr]()
	b, err := x.ask(fmt.Sprintf("attributes for %v", to), uapi.CMInitQPAttr, &uapi.CMByID{Arg: uint32(to)}, n+uapi.Size[uapi.OwnPath]())
	if err != nil {
		return 0, qp.Attr{}, err
	}
	r, _ := uapi.Parse[uapi.QPAttr](b)
	own, _ := uapi.Parse[uapi.OwnPath](b[n:])
	mask, a := r.Attr(own.UDPPort)
	if mask&qp.MaskAV != 0 {
		a.Path = x.d.path(&r.AH, own.UDPPort)
	}
	return mask, a, nil
}

// param returns the parameters as a command carries them.
func param(p *cmid.ConnParam) uapi.ConnParam {
	c := uapi.ConnParam{
		QPN: p.QPN, QKey: p.QKey, ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
		RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount, Valid: 1,
	}
	if p.FlowControl {
		c.FlowControl = 1
	}
	if p.SRQ {
		c.SRQ = 1
	}
	c.PrivateLen = uint8(copy(c.Private[:], p.PrivateData))
	return c
}

// commandPrivateLen is the length of the private data field of a command. The
// daemon checks the shorter field of the message.
const commandPrivateLen = 255

// Connect implements provider.Connection.
func (x *id) Connect(p *cmid.ConnParam) error {
	if err := cmid.CheckPrivate("connect request", p.PrivateData, commandPrivateLen); err != nil {
		return err
	}
	return x.do("connect", uapi.CMConnect, uapi.Bytes(&uapi.CMConnectCmd{ID: x.num, Conn: param(p)}))
}

// Accept implements provider.Connection.
func (x *id) Accept(p *cmid.ConnParam) error {
	q := uapi.CMAcceptCmd{ID: x.num, UID: x.uid}
	if p != nil {
		if err := cmid.CheckPrivate("connect reply", p.PrivateData, commandPrivateLen); err != nil {
			return err
		}
		q.Conn = param(p)
	}
	x.mu.Lock()
	was := x.waiting
	x.waiting = false // the id's events may arrive before the answer
	x.mu.Unlock()
	err := x.do("accept", uapi.CMAccept, uapi.Bytes(&q))
	if err != nil {
		x.mu.Lock()
		x.waiting = was
		x.mu.Unlock()
	}
	return err
}

// Reject implements provider.Connection.
func (x *id) Reject(private []byte) error {
	if err := cmid.CheckPrivate("rejection", private, commandPrivateLen); err != nil {
		return err
	}
	q := uapi.CMRejectCmd{ID: x.num}
	q.PrivateLen = uint8(copy(q.Private[:], private))
	return x.do("reject", uapi.CMReject, uapi.Bytes(&q))
}

// Disconnect implements provider.Connection.
func (x *id) Disconnect() error {
	return x.do("disconnect", uapi.CMDisconnect, uapi.Bytes(&uapi.HandleOnly{Handle: x.num}))
}

// Establish implements provider.Connection.
func (x *id) Establish() error {
	const established = 4 // IBV_EVENT_COMM_EST
	return x.do("establish", uapi.CMNotify, uapi.Bytes(&uapi.CMPair{ID: x.num, Arg: established}))
}
