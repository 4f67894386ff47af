package rdmacm

import (
	"net/netip"
	"testing"

	"softrdma/internal/cmid"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/verbs"
)

// A groupEnd is an endpoint that has joined a multicast group on a fabric.
type groupEnd struct {
	*Endpoint
	t  *testing.T
	pd *verbs.PD
	to UDParam
}

// newGroupEnd makes an endpoint like mckey: it resolves the group.
func newGroupEnd(t *testing.T, d *verbs.Device, group netip.Addr) *groupEnd {
	t.Helper()
	return newGroupEndOf(t, d, group, PortSpaceUDP)
}

func newGroupEndOf(t *testing.T, d *verbs.Device, group netip.Addr, space PortSpace) *groupEnd {
	t.Helper()
	dialer := dialerAt(d)
	dialer.PortSpace = space
	if !group.Is4() {
		dialer.Local = netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	e, err := dialer.Resolve(within(t), netip.AddrPortFrom(group, 7).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, e) })
	x := &groupEnd{Endpoint: e, t: t}
	if _, err := e.CreateQP(nil, verbs.QPConfig{MaxInline: 64}); err != nil {
		t.Fatal(err)
	}
	if x.pd, err = e.PD(); err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *groupEnd) join(group netip.Addr) {
	x.t.Helper()
	var err error
	if x.to, err = x.JoinMulticast(within(x.t), group); err != nil {
		x.t.Fatal(err)
	}
}

func (x *groupEnd) qp() *verbs.QP { return x.end.id.QP() }

func (x *groupEnd) receiver() func() (string, verbs.WC) {
	x.t.Helper()
	return receiver(x.t, x.pd, x.qp(), x.RecvCQ())
}

func (x *groupEnd) send(words string) {
	x.t.Helper()
	post(x.t, x.pd, x.qp(), x.SendCQ(), x.to, words)
}

// The members of a group on a fabric receive what one of them sends, until they leave. The
// addresses are those of Linux's rdma_cm for these groups.
func TestMulticastOnAFabric(t *testing.T) {
	devices := fabricPorts(t, "ring:3", true)
	leavesNothing(t)
	group := netip.MustParseAddr("239.9.1.7")
	var ends []*groupEnd
	for _, d := range devices {
		x := newGroupEnd(t, d, group)
		x.join(group)
		ends = append(ends, x)
	}
	to := ends[0].to
	if want := netip.MustParseAddr("ff12:4001:ffff::f09:107"); to.AV.DGID.Addr() != want || to.AV.DLID < 0xc000 || to.QPN != 0xffffff || to.QKey != cmid.DefaultQKey {
		t.Errorf("joined %+v, expected the GID %v", to, want)
	}
	lid := devices[0].QueryPort().LID
	receive := []func() (string, verbs.WC){ends[1].receiver(), ends[2].receiver()}
	ends[0].send("to the group")
	for _, f := range receive {
		if words, wc := f(); words != "to the group" || wc.SrcQPN != ends[0].qp().Number() || wc.SLID != lid || wc.Flags&verbs.WCGRH == 0 {
			t.Errorf("received %q, %+v", words, wc)
		}
	}
	if err := ends[1].LeaveMulticast(group); err != nil {
		t.Error(err)
	}
	if err := ends[1].LeaveMulticast(group); err == nil {
		t.Error("a group was left twice")
	}
	// The port that has left receives nothing of the group. The next datagram to its queue
	// pair is a later one.
	left, stays := ends[1].receiver(), ends[2].receiver()
	ends[0].send("to those that stay")
	if words, _ := stays(); words != "to those that stay" {
		t.Errorf("received %q", words)
	}
	direct := UDParam{AV: verbs.AddressVector{DLID: devices[1].QueryPort().LID}, QPN: ends[1].qp().Number(), QKey: cmid.DefaultQKey}
	post(t, ends[0].pd, ends[0].qp(), ends[0].SendCQ(), direct, "not by the group")
	if words, _ := left(); words != "not by the group" {
		t.Errorf("received %q after the group was left", words)
	}
}

// The port stays a member as long as one of its ids is.
func TestMulticastOfTwoIDsOfAPort(t *testing.T) {
	devices := fabricPorts(t, "star:2", true)
	leavesNothing(t)
	group := netip.MustParseAddr("239.9.1.8")
	sender, a, b := newGroupEnd(t, devices[0], group), newGroupEnd(t, devices[1], group), newGroupEnd(t, devices[1], group)
	for _, x := range []*groupEnd{sender, a, b} {
		x.join(group)
	}
	first, second := a.receiver(), b.receiver()
	sender.send("to both")
	for _, f := range []func() (string, verbs.WC){first, second} {
		if words, _ := f(); words != "to both" {
			t.Errorf("received %q", words)
		}
	}
	if err := a.LeaveMulticast(group); err != nil {
		t.Error(err)
	}
	rest := b.receiver()
	sender.send("to one")
	if words, _ := rest(); words != "to one" {
		t.Errorf("received %q", words)
	}
}

func TestMulticastGroupsOfIPv6OnAFabric(t *testing.T) {
	devices := fabricPorts(t, "star:2", true)
	leavesNothing(t)
	four := netip.MustParseAddr("239.9.1.9")
	a, b := newGroupEnd(t, devices[0], four), newGroupEnd(t, devices[1], four)
	for group, want := range map[string]string{
		"ff15::77":                    "ff12:6001:ffff::77",
		"ff1e:1:2:3:4:5:6:7":          "ff12:6001:ffff:3:4:5:6:7",
		"ff12:a01b:fe80::1:0:c0a8:99": "", // only an administrator may create it within the link
	} {
		ip := netip.MustParseAddr(group)
		if want == "" {
			_, err := a.JoinMulticast(within(t), ip)
			wantsReason(t, err, "SA_STATUS")
			continue
		}
		a.join(ip)
		b.join(ip)
		if got := a.to.AV.DGID.Addr(); got != netip.MustParseAddr(want) {
			t.Errorf("%s: GID %v, expected %s", group, got, want)
		}
		f := b.receiver()
		a.send(group)
		if words, _ := f(); words != group {
			t.Errorf("received %q", words)
		}
	}
}

func TestMulticastOnAFabricWithoutManager(t *testing.T) {
	devices := fabricPorts(t, "star:2", false)
	leavesNothing(t)
	group := netip.MustParseAddr("239.9.1.10")
	_, err := newGroupEnd(t, devices[0], group).JoinMulticast(within(t), group)
	wantsReason(t, err, "SA_NONE")
}

// A fabric that ends takes its memberships with it. Programs join again in the next one.
func TestMulticastMembershipEndsWithItsFabric(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	var devices []*verbs.Device
	for _, name := range f.Adapters {
		d, err := verbs.Open("ib:"+name, verbs.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closed(t, d) })
		devices = append(devices, d)
	}
	active := func() {
		for _, d := range devices {
			fabrictest.WaitFor(t, "an active port", func() bool { return d.QueryPort().State == verbs.PortActive })
		}
	}
	active()
	group := netip.MustParseAddr("239.9.1.11")
	x := newGroupEnd(t, devices[0], group)
	x.join(group)
	ch := NewEventChannel()
	defer closed(t, ch)
	id, err := ch.NewID(PortSpaceUDP)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := id.Destroy(); err != nil {
			t.Error(err)
		}
	}()
	if err := id.UseDevice(devices[1]); err != nil {
		t.Fatal(err)
	}
	if err := id.Bind(netip.MustParseAddrPort("10.77.0.2:0")); err != nil {
		t.Fatal(err)
	}
	if _, err := id.CreateQP(nil, verbs.QPConfig{MaxInline: 64}); err != nil {
		t.Fatal(err)
	}
	if err := id.JoinMulticast(group, "first"); err != nil {
		t.Fatal(err)
	}
	expect(t, ch, EventMulticastJoin)
	f.Restart()
	e := expect(t, ch, EventMulticastError)
	if e.Context != "first" || e.Status != cmid.StatusReset || e.ID != id {
		t.Errorf("found %+v", e)
	}
	wantsReason(t, e.Err, "SA_FORGOTTEN")
	active()
	for _, leave := range []func(netip.Addr) error{id.LeaveMulticast, x.LeaveMulticast} {
		if err := leave(group); err != nil {
			t.Error(err)
		}
	}
	if err := id.JoinMulticast(group, "second"); err != nil {
		t.Fatal(err)
	}
	to := expect(t, ch, EventMulticastJoin)
	x.join(group)
	if to.Context != "second" || to.UD.AV.DLID != x.to.AV.DLID {
		t.Errorf("joined %+v and %+v", to.UD, x.to)
	}
	words := x.receiver()
	pd, err := id.PD()
	if err != nil {
		t.Fatal(err)
	}
	post(t, pd, id.QP(), id.SendCQ(), to.UD, "again")
	if w, _ := words(); w != "again" {
		t.Errorf("received %q", w)
	}
}

// A port delivers what it sends to a group to its own members of the group as well.
func TestMulticastWithinAPort(t *testing.T) {
	devices := fabricPorts(t, "star:2", true)
	leavesNothing(t)
	group := netip.MustParseAddr("239.9.1.12")
	a, b := newGroupEnd(t, devices[0], group), newGroupEnd(t, devices[0], group)
	a.join(group)
	b.join(group)
	f := b.receiver()
	a.send("to the neighbor")
	if words, wc := f(); words != "to the neighbor" || wc.SrcQPN != a.qp().Number() {
		t.Errorf("received %q, %+v", words, wc)
	}
}

// An end that only sends to a group reaches its members, and gets nothing of the group.
func TestMulticastOfAnEndThatOnlySends(t *testing.T) {
	devices := fabricPorts(t, "star:2", true)
	leavesNothing(t)
	group := netip.MustParseAddr("239.9.1.12")
	sender, member := newGroupEnd(t, devices[0], group), newGroupEnd(t, devices[1], group)
	member.join(group)
	var err error
	if sender.to, err = sender.JoinMulticastToSend(within(t), group); err != nil {
		t.Fatal(err)
	}
	gets, sends := member.receiver(), sender.receiver()
	sender.send("to the member")
	if words, _ := gets(); words != "to the member" {
		t.Errorf("received %q", words)
	}
	member.send("to nobody else")
	direct := UDParam{AV: verbs.AddressVector{DLID: devices[0].QueryPort().LID}, QPN: sender.qp().Number(), QKey: cmid.DefaultQKey}
	post(t, member.pd, member.qp(), member.SendCQ(), direct, "not by the group")
	if words, _ := sends(); words != "not by the group" {
		t.Errorf("the end that only sends received %q", words)
	}
	if err := sender.LeaveMulticast(group); err != nil {
		t.Error(err)
	}
}

// Ids of IP over InfiniBand use its groups, with the MTU and the Q_Key of the partition's
// broadcast group.
func TestPortSpaceOfIPOverInfiniBand(t *testing.T) {
	devices := fabricPorts(t, "star:2", true)
	leavesNothing(t)
	group := netip.MustParseAddr("239.9.1.13")
	var ends []*groupEnd
	for _, d := range devices {
		x := newGroupEndOf(t, d, group, PortSpaceIPoIB)
		x.join(group)
		ends = append(ends, x)
	}
	const key = 0x0b1b // of opensm's broadcast groups, and of ours
	if want := netip.MustParseAddr("ff12:401b:ffff::f09:10d"); ends[0].to.AV.DGID.Addr() != want || ends[0].to.QKey != key {
		t.Errorf("joined %+v, expected the GID %v and the Q_Key %#x", ends[0].to, want, key)
	}
	receive := ends[1].receiver()
	ends[0].send("over IP's group")
	if words, _ := receive(); words != "over IP's group" {
		t.Errorf("received %q", words)
	}
}

func TestPortSpaceOfIPOverInfiniBandWithoutManager(t *testing.T) {
	devices := fabricPorts(t, "star:2", false)
	leavesNothing(t)
	dialer := dialerAt(devices[0])
	dialer.PortSpace = PortSpaceIPoIB
	_, err := dialer.Resolve(within(t), "239.9.1.14:7")
	wantsReason(t, err, "SA_NONE")
}
