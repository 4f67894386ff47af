package rocev1

import (
	"bytes"
	"encoding/hex"
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/bpf"

	"softrdma/internal/frame"
	"softrdma/internal/link"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// A table is a Link that knows some neighbours and carries nothing.
type table struct {
	link.Packets
	mac    ethernet.MAC
	vlan   uint16
	known  map[string]link.Neighbour
	asked  []time.Duration // how long each Ask was told to wait
	filter []bpf.Instruction
	joined []ethernet.MAC
	refuse error // of Filter
	flows  [3]link.Flow
}

var errNobody = errors.New("nobody answers")

func (l *table) MAC() [6]byte           { return l.mac }
func (l *table) VLAN() (uint16, bool)   { return l.vlan, l.vlan != 0 }
func (l *table) Wire() *link.Flow       { return &l.flows[0] }
func (l *table) Host() *link.Flow       { return &l.flows[1] }
func (l *table) Everywhere() *link.Flow { return &l.flows[2] }

func (l *table) Known(ip netip.Addr) (link.Neighbour, error) { return l.known[ip.String()], nil }

func (l *table) Ask(ip netip.Addr, wait time.Duration) ([6]byte, error) {
	l.asked = append(l.asked, wait)
	if ip.String() == "10.0.0.3" {
		return [6]byte{2, 0, 0, 0, 0, 3}, nil
	}
	return [6]byte{}, errNobody
}

func (l *table) Filter(p []bpf.Instruction) error {
	if l.refuse == nil {
		l.filter = p
	}
	return l.refuse
}

func (l *table) JoinMAC(mac [6]byte) error {
	l.joined = append(l.joined, mac)
	return nil
}

func (l *table) LeaveMAC(mac [6]byte) error {
	if n := len(l.joined); n == 0 || l.joined[n-1] != mac {
		return errors.New("not joined")
	}
	l.joined = l.joined[:len(l.joined)-1]
	return nil
}

func newTable() *table {
	return &table{mac: ethernet.MAC{2, 0, 0, 0, 0, 1}, known: map[string]link.Neighbour{
		"10.0.0.2": {Known: true, MAC: ethernet.MAC{2, 0, 0, 0, 0, 2}},
		"10.0.0.8": {Local: true},
		"10.0.0.9": {Asking: true},
	}}
}

func newTestNetwork(t *testing.T, l *table) *Network {
	t.Helper()
	n, err := newNetwork(l, netip.MustParseAddr("10.0.0.1"), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func pathTo(s string) *qp.Path {
	return &qp.Path{Dst: netip.AddrPortFrom(netip.MustParseAddr(s), 4791)}
}

// packet is a whole frame with a transport packet of some bytes on a flow.
func packet(f *frame.Flow, words int) []byte {
	b := make([]byte, ib.BTHLen+4*words+ib.ICRCLen)
	b[0], b[2], b[3] = byte(ib.UDSendOnly), 0xff, 0xff
	ib.PutICRC(b[len(b)-ib.ICRCLen:], f.CRC.Sum(0, b))
	return append(bytes.Clone(f.Header(len(b))), b...)
}

func TestOpenHeaderGolden(t *testing.T) {
	for _, c := range []struct {
		name  string
		vlan  uint16
		dst   string
		class frame.Class
		want  string
	}{
		{"IPv4", 0, "10.0.0.2", frame.Class{TrafficClass: 0xb8, HopLimit: 64, ServiceLevel: 5},
			"020000000002" + "020000000001" + "8915" +
				"6b8abcde" + "0018" + "1b" + "40" + "00000000000000000000ffff0a000001" + "00000000000000000000ffff0a000002"},
		{"IPv4 in a VLAN", 100, "10.0.0.2", frame.Class{HopLimit: 1, ServiceLevel: 5},
			"020000000002" + "020000000001" + "8100" + "a064" + "8915" +
				"600abcde" + "0018" + "1b" + "01" + "00000000000000000000ffff0a000001" + "00000000000000000000ffff0a000002"},
		{"EUI-64", 0, "fe80::202:c9ff:fe01:2345%eth0", frame.Class{HopLimit: 64},
			"0002c9012345" + "020000000001" + "8915" +
				"600abcde" + "0018" + "1b" + "40" + "00000000000000000000ffff0a000001" + "fe800000000000000202c9fffe012345"},
		{"group", 0, "ff0e::ffff:e001:203", frame.Class{HopLimit: 64},
			"3333e0010203" + "020000000001" + "8915" +
				"600abcde" + "0018" + "1b" + "40" + "00000000000000000000ffff0a000001" + "ff0e000000000000" + "0000ffffe0010203"},
	} {
		l := newTable()
		l.vlan = c.vlan
		n := newTestNetwork(t, l)
		path := pathTo(c.dst)
		path.FlowLabel = 0xabcde
		f, err := n.Open(path, 7)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		n.Classify(f, frame.Class{TrafficClass: 0xff, HopLimit: 0xff, ServiceLevel: 15}) // which leaves nothing behind
		n.Classify(f, c.class)
		if got := hex.EncodeToString(f.Header(24)); got != c.want {
			t.Errorf("%s: header\n%s, expected\n%s", c.name, got, c.want)
		}
	}
}

func TestOpenChoosesTheRoute(t *testing.T) {
	l := newTable()
	n := newTestNetwork(t, l)
	for _, c := range []struct {
		name, dst string
		via       *link.Flow
		asked     []time.Duration
		err       error
	}{
		{"known neighbour", "10.0.0.2", l.Wire(), nil, nil},
		{"neighbour that answers", "10.0.0.3", l.Wire(), []time.Duration{openWait}, nil},
		{"neighbour that does not", "10.0.0.7", nil, []time.Duration{openWait}, errNobody},
		{"neighbour that was asked for", "10.0.0.9", nil, []time.Duration{0}, errNobody},
		{"this host", "10.0.0.8", l.Host(), nil, nil},
		{"this device", "10.0.0.1", l.Host(), nil, nil},
		{"EUI-64", "fe80::202:c9ff:fe01:2345", l.Wire(), nil, nil},
		{"group", "224.1.2.3", l.Everywhere(), nil, nil},
	} {
		l.asked = nil
		f, err := n.Open(pathTo(c.dst), 0)
		if !errors.Is(err, c.err) || len(l.asked) != len(c.asked) || len(c.asked) > 0 && l.asked[0] != c.asked[0] {
			t.Errorf("%s: error %v, asked %v, expected %v and %v", c.name, err, l.asked, c.err, c.asked)
		}
		if err == nil && f.Link != c.via {
			t.Errorf("%s: by flow %p, expected %p", c.name, f.Link, c.via)
		}
		if err == nil && (f.Peer != netip.AddrPortFrom(netip.MustParseAddr(c.dst), EtherType) || f.Local != n.Local()) {
			t.Errorf("%s: from %v to %v", c.name, f.Local, f.Peer)
		}
	}
	l.asked = nil
	if err := n.Resolve(pathTo("10.0.0.9")); !errors.Is(err, errNobody) || len(l.asked) != 1 || l.asked[0] != resolveWait {
		t.Errorf("resolve: error %v, asked %v, expected to wait %v", err, l.asked, resolveWait)
	}
}

func TestKeyDistinguishesHeaders(t *testing.T) {
	n := newTestNetwork(t, newTable())
	a, b := pathTo("10.0.0.2"), pathTo("::ffff:10.0.0.2")
	b.Dst = netip.AddrPortFrom(b.Dst.Addr(), 0)
	if n.Key(a, 1, 2) != n.Key(b, 3, 4) {
		t.Error("flows differ by port, queue pair or the form of the address")
	}
	b.FlowLabel = 1
	if n.Key(a, 1, 2) == n.Key(b, 1, 2) {
		t.Error("flows do not differ by flow label")
	}
}

func TestArriveReadsWhatOpenWrote(t *testing.T) {
	for _, vlan := range []uint16{0, 7} {
		from, to := newTable(), newTable()
		from.mac, from.vlan = ethernet.MAC{2, 0, 0, 0, 0, 2}, vlan
		a, err := newNetwork(from, netip.MustParseAddr("10.0.0.2"), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		b := newTestNetwork(t, to)
		f := a.flow(from.Wire(), to.mac, pathTo("10.0.0.1"))
		class := frame.Class{TrafficClass: 0x62, HopLimit: 9}
		a.Classify(f, class)
		for words := range 3 {
			data := append(packet(f, words), 1, 2, 3) // padded by Ethernet
			rx := link.Rx{Data: data, Size: len(data)}
			s, why := b.Arrive(&rx)
			if s == nil {
				t.Fatalf("refused: %v", why)
			}
			if s.From != a.Local() || s.To != b.Local() || s.Class != class || s.Front != f.HeaderLen() {
				t.Errorf("from %v to %v, class %+v, BTH at %d", s.From, s.To, s.Class, s.Front)
			}
			if len(rx.Data) != len(data)-3 || rx.Size != len(rx.Data) {
				t.Errorf("%d bytes of size %d, expected %d", len(rx.Data), rx.Size, len(data)-3)
			}
			if !s.Check(rx.Data[s.Front:]) {
				t.Error("the ICRC is wrong")
			}
			rx.Data[len(rx.Data)-1] ^= 1
			if s.Check(rx.Data[s.Front:]) {
				t.Error("a wrong ICRC was accepted")
			}
		}
	}
}

func TestArriveRefusesByName(t *testing.T) {
	l := newTable()
	n := newTestNetwork(t, l)
	good := packet(n.flow(l.Host(), l.mac, pathTo("10.0.0.1")), 4)
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		want   reason.Reason
	}{
		{"no Ethernet header", func(b []byte) []byte { return b[:13] }, reason.PacketShort},
		{"no GRH", func(b []byte) []byte { return b[:53] }, reason.PacketShort},
		{"IP version", func(b []byte) []byte { b[14] = 4 << 4; return b }, reason.PacketGRH},
		{"next header", func(b []byte) []byte { b[20] = 17; return b }, reason.PacketGRH},
		{"cut", func(b []byte) []byte { return b[:len(b)-1] }, reason.PacketGRHLength},
		{"another GID", func(b []byte) []byte { b[53] = 9; return b }, reason.PacketGID},
		{"source is a group", func(b []byte) []byte { b[22] = 0xff; return b }, reason.PacketGID},
		{"source is nobody", func(b []byte) []byte { clear(b[22:38]); return b }, reason.PacketGID},
	} {
		data := c.change(bytes.Clone(good))
		if s, why := n.Arrive(&link.Rx{Data: data, Size: len(data)}); s != nil || why.Reason != c.want {
			t.Errorf("%s: %v, expected %v", c.name, why, c.want)
		}
	}
	if s, why := n.Arrive(&link.Rx{Data: good, Size: len(good)}); s == nil {
		t.Errorf("good one refused: %v", why)
	}
}

func TestReplyGoesWhereTheQuestionCameFrom(t *testing.T) {
	from, to := newTable(), newTable()
	from.mac = ethernet.MAC{2, 0, 0, 0, 0, 0x77}
	a, err := newNetwork(from, netip.MustParseAddr("10.0.0.77"), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	b := newTestNetwork(t, to)
	for _, c := range []struct {
		mac ethernet.MAC
		via *link.Flow
	}{{from.mac, to.Wire()}, {ethernet.MAC{}, to.Host()}} {
		a.mac = c.mac
		data := packet(a.flow(from.Wire(), to.mac, pathTo("10.0.0.1")), 1)
		if s, why := b.Arrive(&link.Rx{Data: data, Size: len(data)}); s == nil {
			t.Fatalf("refused: %v", why)
		}
		f, err := b.Reply(pathTo("10.0.0.77"))
		if err != nil || f.Link != c.via || ethernet.MAC(f.Header(0)) != c.mac {
			t.Errorf("from %v: to %v by %p, error %v", c.mac, ethernet.MAC(f.Header(0)), f.Link, err)
		}
	}
	if _, err := b.Reply(pathTo("10.0.0.66")); !errors.Is(err, errNobody) {
		t.Errorf("to a peer that sent nothing: error %v", err)
	}
}

func TestFilterTakesOwnFramesByLane(t *testing.T) {
	const lanes = 3
	var vms []*bpf.VM
	var nets []*Network
	l := newTable()
	for i := range lanes {
		n, err := newNetwork(l, netip.MustParseAddr("10.0.0.1"), i, lanes)
		if err != nil {
			t.Fatal(err)
		}
		nets = append(nets, n)
	}
	if err := nets[1].Join(netip.MustParseAddr("ff0e::ffff:e001:203")); err != nil {
		t.Fatal(err)
	}
	for _, n := range nets {
		vm, err := bpf.NewVM(n.filter())
		if err != nil {
			t.Fatal(err)
		}
		vms = append(vms, vm)
	}
	for _, c := range []struct {
		dst  string
		qpn  byte
		lane int // -1 for none
	}{
		{"10.0.0.1", 3, 0}, {"10.0.0.1", 4, 1}, {"10.0.0.1", 5, 2},
		{"10.0.0.2", 3, -1}, {"11.0.0.1", 3, -1}, {"fe80::1", 3, -1},
		{"ff0e::ffff:e001:203", 0xff, 1}, {"ff0e::ffff:e001:204", 0xff, -1},
	} {
		data := packet(nets[0].flow(l.Wire(), ethernet.MAC{}, pathTo(c.dst)), 1)
		data[ethernet.HeaderLen+ib.GRHLen+7] = c.qpn
		for i, vm := range vms {
			n, err := vm.Run(data)
			if err != nil {
				t.Fatal(err)
			}
			if (n > 0) != (i == c.lane) {
				t.Errorf("%s, queue pair %d: lane %d takes %d bytes, expected lane %d", c.dst, c.qpn, i, n, c.lane)
			}
		}
	}
}

func TestJoinAndLeaveFollowTheFilter(t *testing.T) {
	l := newTable()
	n := newTestNetwork(t, l)
	plain := len(l.filter)
	group := netip.MustParseAddr("224.1.2.3")
	if err := n.Join(netip.MustParseAddr("10.0.0.9")); err == nil {
		t.Error("joined an address that is no group")
	}
	if err := n.Leave(group); err == nil {
		t.Error("left a group that was not joined")
	}
	if err := n.Join(group); err != nil || len(l.filter) <= plain || len(l.joined) != 1 || l.joined[0] != (ethernet.MAC{1, 0, 0x5e, 1, 2, 3}) {
		t.Errorf("join: error %v, filter of %d, joined %v", err, len(l.filter), l.joined)
	}
	l.refuse = errors.New("too long")
	if err := n.Join(netip.MustParseAddr("224.1.2.4")); !errors.Is(err, l.refuse) || len(l.joined) != 1 || len(n.groups) != 1 {
		t.Errorf("refused join: error %v, joined %v, groups %v", err, l.joined, n.groups)
	}
	l.refuse = nil
	if err := n.Leave(group); err != nil || len(l.filter) != plain || len(l.joined) != 0 {
		t.Errorf("leave: error %v, filter of %d, joined %v", err, len(l.filter), l.joined)
	}
}

func TestPutGRHIsTheHeaderOfThePacket(t *testing.T) {
	n := newTestNetwork(t, newTable())
	f, err := n.Open(pathTo("10.0.0.2"), 0)
	if err != nil {
		t.Fatal(err)
	}
	class := frame.Class{TrafficClass: 0x62, HopLimit: 9}
	n.Classify(f, class)
	var b [ib.GRHLen]byte
	n.PutGRH(b[:], f.Local, f.Peer, class, 100)
	if want := f.Header(100)[ethernet.HeaderLen:]; !bytes.Equal(b[:], want) {
		t.Errorf("%x, expected %x", b, want)
	}
}

func TestGroupGIDOfIPv4IsLinux(t *testing.T) {
	n := newTestNetwork(t, newTable())
	for ip, want := range map[string]string{"224.1.2.3": "ff0e::ffff:e001:203", "::ffff:224.1.2.3": "ff0e::ffff:e001:203", "ff02::7": "ff02::7"} {
		if got := n.GroupGID(netip.MustParseAddr(ip)); got != netip.MustParseAddr(want) {
			t.Errorf("%s: %v, expected %s", ip, got, want)
		}
	}
}
