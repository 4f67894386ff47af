package rdmacm

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"softrdma/internal/wire/mad"
	"softrdma/verbs"
)

// grh is the length of the area before a datagram's data.
const grh = 40

// receiver posts one receive to a datagram queue pair. The result waits for the message
// and returns it.
func receiver(t *testing.T, pd *verbs.PD, q *verbs.QP, cq *verbs.CQ) func() (string, verbs.WC) {
	t.Helper()
	mr, err := pd.RegisterMemory(make([]byte, grh+64), verbs.LocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := q.PostRecv(verbs.RecvWR{SGL: []verbs.SGE{mr.SGE(0, mr.Len())}}); err != nil {
		t.Fatal(err)
	}
	return func() (string, verbs.WC) {
		t.Helper()
		wc := completion(t, cq)
		s := string(mr.Bytes()[grh:wc.ByteLen])
		if err := mr.Deregister(); err != nil {
			t.Error(err)
		}
		return s, wc
	}
}

// post sends a datagram to the result of a lookup or join.
func post(t *testing.T, pd *verbs.PD, q *verbs.QP, cq *verbs.CQ, to UDParam, words string) {
	t.Helper()
	ah, err := pd.CreateAH(to.AV)
	if err != nil {
		t.Fatal(err)
	}
	err = q.PostSend(verbs.SendWR{
		Op: verbs.OpSend, Flags: verbs.Signaled, Inline: []byte(words), AH: ah, RemoteQPN: to.QPN, RemoteQKey: to.QKey,
	})
	if err != nil {
		t.Fatal(err)
	}
	completion(t, cq)
	if err := ah.Destroy(); err != nil {
		t.Error(err)
	}
}

func TestLookupFindsQueuePair(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{PortSpace: PortSpaceUDP, Param: ConnParam{PrivateData: []byte("mine")}})
	server := accepted(t, l)
	d := client()
	d.Param.PrivateData = []byte("whose")
	e, to, err := d.Lookup(within(t), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	s := server()
	defer closed(t, s)
	if to.QPN != s.QP().Number() || to.AV.DGID.Addr() != l.Addr().Addr() || to.QKey != 0x01234567 {
		t.Errorf("found %+v, expected queue pair %#x", to, s.QP().Number())
	}
	if !bytes.HasPrefix(to.PrivateData, []byte("mine\x00")) || len(to.PrivateData) != MaxPrivateAnswer ||
		!bytes.HasPrefix(s.PrivateData(), []byte("whose\x00")) || len(s.PrivateData()) != MaxPrivateLookup {
		t.Errorf("private data: found %q and %q", to.PrivateData, s.PrivateData())
	}
	pd, err := s.PD()
	if err != nil {
		t.Fatal(err)
	}
	received := receiver(t, pd, s.QP(), s.RecvCQ())
	own, err := e.PD()
	if err != nil {
		t.Fatal(err)
	}
	post(t, own, e.end.id.QP(), e.SendCQ(), to, "a datagram")
	if words, _ := received(); words != "a datagram" {
		t.Errorf("received %q", words)
	}
	if err := s.Disconnect(); err == nil {
		t.Error("datagrams were disconnected")
	}
}

func TestLookupRejected(t *testing.T) {
	leavesNothing(t)
	l := listen(t, ListenConfig{PortSpace: PortSpaceUDP})
	ctx := within(t)
	go func() {
		r, err := l.Request(ctx)
		if err == nil {
			err = r.Reject([]byte("never"))
		}
		if err != nil {
			t.Error(err)
		}
	}()
	d := client()
	_, _, err := d.Lookup(ctx, l.Addr().String())
	r := isReject(t, err)
	if r.Code != uint16(mad.SIDRRejected) || !bytes.HasPrefix(r.PrivateData, []byte("never\x00")) {
		t.Errorf("found %+v", r)
	}
	_, _, err = d.Lookup(ctx, addr(serverIP, l.Addr().Port()-1).String())
	if r := isReject(t, err); r.Code != uint16(mad.SIDRUnsupported) {
		t.Errorf("no listener: expected status %d, found %+v", mad.SIDRUnsupported, r)
	}
}

func TestLookupPrivateDataTooLongRefused(t *testing.T) {
	leavesNothing(t)
	d := client()
	d.Param.PrivateData = make([]byte, MaxPrivateLookup+1)
	_, _, err := d.Lookup(within(t), serverIP+":7")
	if !errors.Is(err, ErrPrivateData) {
		t.Errorf("expected %v, found %v", ErrPrivateData, err)
	}
}

func TestDialDatagramsRefused(t *testing.T) {
	leavesNothing(t)
	d := client()
	d.PortSpace = PortSpaceUDP
	_, err := d.Dial(within(t), serverIP+":7")
	wants(t, err, "use Lookup")
	d.PortSpace = PortSpaceTCP
	e, err := d.Resolve(within(t), serverIP+":7")
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, e)
	_, err = e.Lookup(within(t), nil)
	wants(t, err, "expected PortSpaceUDP")
}

func TestIDLookupEvents(t *testing.T) {
	p := newPair(t, PortSpaceUDP)
	id := p.request(&ConnParam{PrivateData: []byte("q")}, true)
	q, err := id.CreateQP(nil, verbs.QPConfig{})
	p.ok(err)
	if q.State() != verbs.RTS || q.Type() != verbs.UD {
		t.Errorf("expected a UD queue pair in RTS, found %v in %v", q.Type(), q.State())
	}
	p.ok(id.Accept(nil))
	e := expect(t, p.client, EventEstablished)
	if e.UD.QPN != q.Number() || e.UD.AV.DGID.Addr() != id.LocalAddr().Addr() {
		t.Errorf("found %+v", e.UD)
	}
}

func TestMulticastJoinDelivers(t *testing.T) {
	leavesNothing(t)
	group := netip.MustParseAddr("239.9.1.7")
	var ends []*Endpoint
	var to UDParam
	for _, ip := range []string{serverIP, clientIP} {
		d := Dialer{PortSpace: PortSpaceUDP, Local: addr(ip, 0)}
		e, err := d.Resolve(within(t), netip.AddrPortFrom(group, 7).String())
		if err != nil {
			t.Fatal(err)
		}
		defer closed(t, e)
		if _, err := e.CreateQP(nil, verbs.QPConfig{MaxInline: 64}); err != nil {
			t.Fatal(err)
		}
		if to, err = e.JoinMulticast(within(t), group); err != nil {
			t.Skipf("the loopback takes no multicast group here: %v", err)
		}
		ends = append(ends, e)
	}
	if to.QPN != 0xffffff || to.QKey != 0x01234567 || to.AV.DGID.Addr() != group {
		t.Errorf("found %+v", to)
	}
	pd, err := ends[1].PD()
	if err != nil {
		t.Fatal(err)
	}
	received := receiver(t, pd, ends[1].end.id.QP(), ends[1].RecvCQ())
	own, err := ends[0].PD()
	if err != nil {
		t.Fatal(err)
	}
	post(t, own, ends[0].end.id.QP(), ends[0].SendCQ(), to, "to the group")
	words, wc := received()
	if words != "to the group" || wc.SrcQPN != ends[0].end.id.QP().Number() {
		t.Errorf("received %q from %#x", words, wc.SrcQPN)
	}
	if err := ends[1].LeaveMulticast(group); err != nil {
		t.Error(err)
	}
	if err := ends[1].LeaveMulticast(group); err == nil {
		t.Error("a group was left twice")
	}
	if _, err := ends[0].JoinMulticast(within(t), netip.MustParseAddr(clientIP)); err == nil {
		t.Error("a unicast address was joined")
	}
}

func TestIDMulticastEventHasContext(t *testing.T) {
	p := newPair(t, PortSpaceUDP)
	group := netip.MustParseAddr("239.9.1.8")
	p.ok(p.dialer.Bind(addr(clientIP, 0)))
	p.ok(p.dialer.JoinMulticast(group, "which"))
	if e := expect(t, p.client, EventMulticastJoin); e.Context != "which" || e.ID != p.dialer {
		t.Errorf("found %+v", e)
	}
	p.ok(p.dialer.LeaveMulticast(group))
}
