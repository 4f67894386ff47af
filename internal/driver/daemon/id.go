//go:build linux

package daemon

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"softrdma/internal/adapter"
	"softrdma/internal/cma"
	"softrdma/internal/connect"
	"softrdma/internal/psn"
	"softrdma/internal/qp"
	"softrdma/internal/uverbs/uapi"
)

// An id is one of the daemon's.
type id struct {
	d     *Device
	num   uint32 // the daemon's of it
	uid   uint64 // by which events name it
	space cma.PortSpace
	kind  qp.Type

	mu            sync.Mutex // taken before a channel's
	ch            *events
	owner         any
	local, remote netip.AddrPort
	state         cma.State // see known
	waiting       bool      // a request that nobody has accepted yet
	destroyed     bool
	groups        []*membership
}

// A membership is a group that an id has joined.
type membership struct {
	id      *id
	uid     uint64
	num     uint32 // the daemon's of it
	addr    netip.Addr
	context any
}

// NewID implements connect.Channel.
func (h *events) NewID(space cma.PortSpace, t qp.Type, owner any) (connect.ID, error) {
	if t == 0 {
		t = qp.RC
		if space == cma.PortSpaceUDP {
			t = qp.UD
		}
	}
	x := h.newID(&id{space: space, kind: t, owner: owner})
	q := uapi.CMCreate{UID: x.uid, PS: uint16(space), QPType: uint8(t)}
	a, err := h.command(uapi.CMCreateID, uapi.Bytes(&q), 8, uapi.Size[uapi.HandleOnly](), nil)
	if err != nil {
		x.forget()
		return nil, err
	}
	r, _ := uapi.Parse[uapi.HandleOnly](a)
	x.num = r.Handle
	return x, nil
}

// newID makes an id the channel's.
func (h *events) newID(x *id) *id {
	x.d, x.ch = h.d, h
	x.uid = h.d.own(x)
	h.join(x)
	return x
}

// forget gives up what this side has for the id.
func (x *id) forget() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.destroyed = true
	x.d.disown(x.uid)
	for _, g := range x.groups {
		x.d.disown(g.uid)
	}
	x.groups = nil
	x.ch.leave(x)
}

// channel is the channel that the id reports to, for an operation on the id.
func (x *id) channel(op string) (*events, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.destroyed {
		return nil, fmt.Errorf("%s: %w", op, cma.ErrDestroyed)
	}
	return x.ch, nil
}

// do carries out a command without an answer.
func (x *id) do(op string, number uint32, body []byte) error {
	h, err := x.channel(op)
	if err != nil {
		return err
	}
	return h.do(number, body)
}

// ask carries out a command whose answer has n bytes.
func (x *id) ask(op string, number uint32, q *uapi.CMByID, n int) ([]byte, error) {
	h, err := x.channel(op)
	if err != nil {
		return nil, err
	}
	q.ID = x.num
	return h.ask(number, uapi.Bytes(q), n)
}

// SetOwner implements connect.ID.
func (x *id) SetOwner(owner any) {
	x.mu.Lock()
	x.owner = owner
	x.mu.Unlock()
}

func (x *id) ownerNow() any {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.owner
}

// PortSpace implements connect.ID.
func (x *id) PortSpace() cma.PortSpace { return x.space }

// Type implements connect.ID.
func (x *id) Type() qp.Type { return x.kind }

// State implements connect.ID: as this side knows it, or else as the daemon does.
func (x *id) State() cma.State {
	s := x.known()
	if s == cma.Idle {
		if now, err := x.hear(); err == nil {
			return now
		}
	}
	return s
}

// known is the state as far as events have told it, Idle where they have not.
func (x *id) known() cma.State {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.destroyed {
		return cma.Destroying
	}
	return x.state
}

// Local implements connect.ID.
func (x *id) Local() netip.AddrPort {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.local
}

// Remote implements connect.ID.
func (x *id) Remote() netip.AddrPort {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.remote
}

// Device implements connect.ID.
func (x *id) Device() *adapter.Device { return nil }

// Removed implements connect.ID.
func (x *id) Removed() bool { return x.known() == cma.DeviceRemoval }

// remove takes the device away, and tells whether the id was on it until now and
// is the program's own.
func (x *id) remove() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.local.IsValid() || x.destroyed || x.state == cma.DeviceRemoval {
		return false
	}
	x.state = cma.DeviceRemoval
	return !x.waiting
}

// found takes the addresses that came with an event.
func (x *id) found(own *uapi.OwnCMEvent) { x.at(own.Local[:], own.Remote[:]) }

func (x *id) at(local, remote []byte) {
	l, _ := uapi.ParseAddr(local) // the daemon's own, or none
	r, _ := uapi.ParseAddr(remote)
	x.mu.Lock()
	x.local, x.remote = l, r
	x.mu.Unlock()
}

// look asks for the addresses, which calls may have changed.
func (x *id) look() error {
	a, err := x.ask("query", uapi.CMQuery, &uapi.CMByID{}, uapi.Size[uapi.CMAddr]())
	if err != nil {
		return err
	}
	r, _ := uapi.Parse[uapi.CMAddr](a)
	x.at(r.Src[:], r.Dst[:])
	x.catchUp()
	return nil
}

// catchUp tells an id of the device's end that was not on it yet when its channel
// noticed.
func (x *id) catchUp() {
	x.d.moves.Lock()
	defer x.d.moves.Unlock()
	h, err := x.channel("query")
	if err != nil {
		return
	}
	if h.isLost() && x.remove() {
		h.tell(x)
	}
}

// hear asks for the state.
func (x *id) hear() (cma.State, error) {
	n := uapi.Size[uapi.CMAddr]()
	a, err := x.ask("query", uapi.CMQuery, &uapi.CMByID{}, n+uapi.Size[uapi.OwnCMAddr]())
	if err != nil {
		return 0, err
	}
	r, _ := uapi.Parse[uapi.OwnCMAddr](a[n:])
	return cma.State(r.State), nil
}

// came notes what an event means.
func (x *id) came(t cma.EventType) {
	if t == cma.EventDisconnected {
		x.mu.Lock()
		x.state = cma.Disconnect
		x.mu.Unlock()
	}
}

// option sets an option.
func (x *id) option(op string, level, name uint32, value []byte) error {
	h, err := x.channel(op)
	if err != nil {
		return err
	}
	q := uapi.CMOption{ID: x.num, Level: level, Name: name, Len: uint32(len(value))}
	_, err = h.command(uapi.CMSetOption, uapi.Bytes(&q), 0, 0, value)
	return err
}

func (x *id) own(op string, name uint32, value uint32) error {
	return x.option(op, uapi.CMOptionOwn, name, binary.NativeEndian.AppendUint32(nil, value))
}

func flag(on bool) []byte {
	if on {
		return binary.NativeEndian.AppendUint32(nil, 1)
	}
	return make([]byte, 4)
}

// SetTOS implements connect.ID.
func (x *id) SetTOS(tos uint8) error {
	return x.option("set TOS", uapi.CMOptionID, uapi.CMOptionTOS, []byte{tos})
}

// SetReuseAddr implements connect.ID.
func (x *id) SetReuseAddr(on bool) error {
	return x.option("set reuse address", uapi.CMOptionID, uapi.CMOptionReuseAddr, flag(on))
}

// SetAFOnly implements connect.ID.
func (x *id) SetAFOnly(on bool) error {
	return x.option("set AF only", uapi.CMOptionID, uapi.CMOptionAFOnly, flag(on))
}

// SetAckTimeout implements connect.ID.
func (x *id) SetAckTimeout(field uint8) error {
	return x.option("set acknowledge timeout", uapi.CMOptionID, uapi.CMOptionAckTimeout, []byte{field})
}

// SetMinRNRTimer implements connect.ID.
func (x *id) SetMinRNRTimer(field uint8) error {
	return x.own("set minimum RNR timer", uapi.CMOwnMinRNRTimer, uint32(field))
}

// SetUDPPorts implements connect.ID. The device's is the daemon's to know.
func (x *id) SetUDPPorts(_, remote uint16) error {
	return x.own("set UDP ports", uapi.CMOwnUDPPort, uint32(remote))
}

// SetResponseTimeout implements connect.ID.
func (x *id) SetResponseTimeout(field, retries uint8) error {
	return x.own("set response timeout", uapi.CMOwnTimeout, uint32(field)|uint32(retries)<<8)
}

// SetProtocol implements connect.ID.
func (x *id) SetProtocol(p cma.Protocol) error {
	return x.own("set protocol", uapi.CMOwnProtocol, uint32(p))
}

// SetWay implements connect.ID: the device is open.
func (x *id) SetWay(any) error {
	return fmt.Errorf("set way of opening: the daemon has opened the device: %w", errors.ErrUnsupported)
}

func sockaddr(a netip.AddrPort) (b uapi.SockaddrIn6) {
	uapi.PutAddr(b[:], a)
	return b
}

// Bind implements connect.ID.
func (x *id) Bind(local netip.AddrPort) error {
	if err := x.do("bind", uapi.CMBindIP, uapi.Bytes(&uapi.CMBindIPCmd{ID: x.num, Addr: sockaddr(local)})); err != nil {
		return err
	}
	return x.look()
}

// ResolveAddr implements connect.ID.
func (x *id) ResolveAddr(src, dst netip.AddrPort) error {
	q := uapi.CMResolveIPCmd{ID: x.num, Src: sockaddr(src), Dst: sockaddr(dst)}
	if err := x.do("resolve address", uapi.CMResolveIP, uapi.Bytes(&q)); err != nil {
		return err
	}
	return x.look()
}

// ResolveRoute implements connect.ID.
func (x *id) ResolveRoute() error {
	return x.do("resolve route", uapi.CMResolveRoute, uapi.Bytes(&uapi.CMPair{ID: x.num}))
}

// Listen implements connect.ID.
func (x *id) Listen(backlog int) error {
	q := uapi.CMPair{ID: x.num, Arg: uint32(backlog)}
	if err := x.do("listen", uapi.CMListen, uapi.Bytes(&q)); err != nil {
		return err
	}
	return x.look()
}

// LeftOut implements connect.ID: it listens on its device.
func (x *id) LeftOut() []error { return nil }

// InitQPAttr implements connect.ID.
func (x *id) InitQPAttr(to qp.State) (qp.Mask, qp.Attr, error) {
	n := uapi.Size[uapi.QPAttr]()
	b, err := x.ask(fmt.Sprintf("attributes for %v", to), uapi.CMInitQPAttr, &uapi.CMByID{Arg: uint32(to)}, n+uapi.Size[uapi.OwnPath]())
	if err != nil {
		return 0, qp.Attr{}, err
	}
	r, _ := uapi.Parse[uapi.QPAttr](b)
	own, _ := uapi.Parse[uapi.OwnPath](b[n:])
	mask := qp.Mask(r.Mask)
	a := qp.Attr{
		State: qp.State(r.State), CurState: qp.State(r.CurState), QKey: r.QKey, RQPSN: psn.PSN(r.RQPSN), SQPSN: psn.PSN(r.SQPSN),
		DestQPN: r.DestQPN, Access: qp.Access(r.AccessFlags), PKeyIndex: r.PKeyIndex, Port: r.PortNum, MaxRdAtomic: r.MaxRdAtomic,
		MaxDestRdAtomic: r.MaxDestRdAtomic, MinRNRTimer: r.MinRNRTimer, Timeout: r.Timeout, RetryCnt: r.RetryCnt, RNRRetry: r.RNRRetry,
	}
	if mask&qp.MaskPathMTU != 0 {
		a.PathMTU = mtu(uint8(r.PathMTU))
	}
	if mask&qp.MaskAV != 0 {
		a.Path = pathOf(&r.AH, own.UDPPort)
	}
	return mask, a, nil
}

// param makes the parameters of a command.
func param(p *cma.ConnParam) uapi.ConnParam {
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

// fits tells whether private data has room in a command; the daemon tells what
// has room in the message.
func fits(op string, private []byte) error {
	const room = 255
	if len(private) > room {
		return &cma.PrivateDataError{Message: op, Limit: room, Found: len(private)}
	}
	return nil
}

// Connect implements connect.ID.
func (x *id) Connect(p *cma.ConnParam) error {
	if err := fits("connect request", p.PrivateData); err != nil {
		return err
	}
	return x.do("connect", uapi.CMConnect, uapi.Bytes(&uapi.CMConnectCmd{ID: x.num, Conn: param(p)}))
}

// Accept implements connect.ID.
func (x *id) Accept(p *cma.ConnParam) error {
	q := uapi.CMAcceptCmd{ID: x.num, UID: x.uid}
	if p != nil {
		if err := fits("connect reply", p.PrivateData); err != nil {
			return err
		}
		q.Conn = param(p)
	}
	x.mu.Lock()
	was := x.waiting
	x.waiting = false // events of it may come before the answer
	x.mu.Unlock()
	err := x.do("accept", uapi.CMAccept, uapi.Bytes(&q))
	if err != nil {
		x.mu.Lock()
		x.waiting = was
		x.mu.Unlock()
	}
	return err
}

// Reject implements connect.ID.
func (x *id) Reject(private []byte) error {
	if err := fits("rejection", private); err != nil {
		return err
	}
	q := uapi.CMRejectCmd{ID: x.num}
	q.PrivateLen = uint8(copy(q.Private[:], private))
	return x.do("reject", uapi.CMReject, uapi.Bytes(&q))
}

// Disconnect implements connect.ID.
func (x *id) Disconnect() error {
	return x.do("disconnect", uapi.CMDisconnect, uapi.Bytes(&uapi.HandleOnly{Handle: x.num}))
}

// Establish implements connect.ID.
func (x *id) Establish() error {
	const established = 4 // IBV_EVENT_COMM_EST
	return x.do("establish", uapi.CMNotify, uapi.Bytes(&uapi.CMPair{ID: x.num, Arg: established}))
}

// JoinMulticast implements connect.ID.
func (x *id) JoinMulticast(addr netip.Addr, context any) error {
	h, err := x.channel("join multicast")
	if err != nil {
		return err
	}
	g := &membership{id: x, addr: addr.Unmap(), context: context}
	g.uid = x.d.own(g)
	q := uapi.CMJoinIPCmd{UID: g.uid, ID: x.num, Addr: sockaddr(netip.AddrPortFrom(g.addr, 0))}
	a, err := h.ask(uapi.CMJoinIPMcast, uapi.Bytes(&q), uapi.Size[uapi.HandleOnly]())
	if err != nil {
		x.d.disown(g.uid)
		return err
	}
	r, _ := uapi.Parse[uapi.HandleOnly](a)
	x.mu.Lock()
	defer x.mu.Unlock()
	g.num = r.Handle
	if x.destroyed {
		x.d.disown(g.uid)
		return nil
	}
	x.groups = append(x.groups, g)
	return nil
}

// LeaveMulticast implements connect.ID.
func (x *id) LeaveMulticast(addr netip.Addr) error {
	const op = "leave multicast"
	h, err := x.channel(op)
	if err != nil {
		return err
	}
	x.mu.Lock()
	i := slices.IndexFunc(x.groups, func(g *membership) bool { return g.addr == addr.Unmap() })
	if i < 0 {
		x.mu.Unlock()
		return fmt.Errorf("%s: the id has not joined %v", op, addr)
	}
	g := x.groups[i]
	x.groups = slices.Delete(x.groups, i, i+1)
	x.mu.Unlock()
	x.d.disown(g.uid)
	_, err = h.ask(uapi.CMLeaveMcast, uapi.Bytes(&uapi.CMByID{ID: g.num}), uapi.Size[uapi.DestroyResp]())
	return err
}

// Migrate implements connect.ID. The daemon takes the events along that are
// there still.
func (x *id) Migrate(to connect.Channel) error {
	h := to.(*events)
	from, err := x.channel("migrate")
	if err != nil || from == h {
		return err
	}
	q := uapi.CMByID{ID: x.num, Arg: uint32(from.fd)}
	if _, err := h.ask(uapi.CMMigrateID, uapi.Bytes(&q), uapi.Size[uapi.DestroyResp]()); err != nil {
		return err
	}
	x.move(from, h)
	return nil
}

// move makes the id report to another channel, from which it hears as well if the
// device has ended meanwhile.
func (x *id) move(from, to *events) {
	x.d.moves.Lock()
	defer x.d.moves.Unlock()
	x.mu.Lock()
	x.ch = to
	left, lost := from.leave(x), !x.destroyed && to.join(x)
	x.mu.Unlock()
	if left || lost && x.remove() {
		to.tell(x)
	}
}

// Destroy implements connect.ID. Where the daemon is gone there is nothing to
// destroy.
func (x *id) Destroy() {
	h, err := x.channel("destroy")
	if err != nil {
		return
	}
	x.forget()
	_, _ = h.ask(uapi.CMDestroyID, uapi.Bytes(&uapi.CMByID{ID: x.num}), uapi.Size[uapi.DestroyResp]())
}
