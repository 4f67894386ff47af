package adapter

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/adapter/gsi"
	"softrdma/internal/adapter/partition"
	"softrdma/internal/cm"
	"softrdma/internal/link"
	"softrdma/internal/machine"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
)

// datagram delivers a UD packet with a valid ICRC to queue pair 1.
func datagram(d *Device, from netip.AddrPort, op ib.Opcode, qkey uint32, payload []byte) {
	in := machine.In{Src: from, Dst: d.Local()}
	in.Opcode, in.DestQPN, in.PKey, in.Payload = op, gsi.QPN, partition.Default, payload
	in.DETH = ib.DETH{QKey: qkey, SrcQPN: gsi.QPN}
	b := in.Append(nil)
	b = append(b, 0, 0, 0, 0)
	h := ib.NewPseudoHeader(from, d.Local())
	ib.PutICRC(b[len(b)-ib.ICRCLen:], h.Sum(0, b))
	l := d.packets[0]
	l.Lock()
	l.receive(d.clock(), &link.Rx{Data: b, Size: len(b), Src: from, Dst: d.Local()})
	l.Transmit(d.clock())
	l.Unlock()
}

func TestGSIRequestForUnknownServiceIsRejectedOnTheWire(t *testing.T) {
	peer := cm.New(cm.Config{GUID: 1, Local: netip.MustParseAddrPort("127.0.0.9:4791"), MTU: 1024, Random: func() uint32 { return 77 }, Refuse: func(reason.Detail) {}})
	dev, link := gsiDevice(t)
	p := cm.ConnectParams{Service: 5, QPN: 0x123}
	p.Path.Dst = dev.Local()
	if _, err := peer.Connect(0, &p); err != nil {
		t.Fatal(err)
	}
	var out cm.Datagram
	if !peer.Next(0, &out) {
		t.Fatal("no REQ")
	}
	datagram(dev, netip.MustParseAddrPort("127.0.0.9:50000"), ib.UDSendOnly, gsi.QKey, out.MAD[:])
	if n := link.count(); n != 1 {
		t.Fatalf("%d packets sent, want the REJ", n)
	}
	var sent ib.Packet
	if f := sent.Parse(link.sent[0]); f != ib.OK {
		t.Fatalf("fault %v", f)
	}
	if sent.DestQPN != gsi.QPN || sent.DETH != (ib.DETH{QKey: gsi.QKey, SrcQPN: gsi.QPN}) || len(sent.Payload) != mad.Len {
		t.Errorf("sent to QPN %d with %+v, %d bytes", sent.DestQPN, sent.DETH, len(sent.Payload))
	}
	var got cm.Event
	peer.SetHandler(func(e *cm.Event) { got = *e })
	peer.Receive(0, cm.Route{Path: qp.Path{Dst: dev.Local()}}, sent.Payload)
	if got.Kind != cm.EventRejReceived || got.Reject != mad.RejectInvalidServiceID {
		t.Errorf("the peer heard %v, %v", got.Kind, got.Reject)
	}
}

// Answers to unknown peers open no flow, which would take a socket for each peer.
func TestGSIAnswersToUnknownPeersTakeNoFlow(t *testing.T) {
	dev, link := gsiDevice(t)
	var d [mad.Len]byte
	h := mad.NewHeader(mad.AttrDREQ, 1)
	h.Put(&d)
	(&mad.DREQ{LocalID: 1, RemoteID: 2}).Put(&d)
	for i := range 100 {
		datagram(dev, netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, 0, byte(i)}), 50000), ib.UDSendOnly, gsi.QKey, d[:])
	}
	if n := link.count(); n != 100 {
		t.Errorf("%d packets sent, expected 100", n)
	}
	if n := len(dev.packets[0].flows.open); n != 0 {
		t.Errorf("%d flows are open", n)
	}
}

func TestGSIForeignDatagramsAreRefusedByName(t *testing.T) {
	dev, link := gsiDevice(t)
	from := netip.MustParseAddrPort("127.0.0.9:50000")
	for _, c := range []struct {
		name string
		op   ib.Opcode
		qkey uint32
		data []byte
		want reason.Reason
	}{
		{"immediate data", ib.UDSendOnlyImm, gsi.QKey, make([]byte, mad.Len), reason.PacketOpcode},
		{"a user's Q_Key", ib.UDSendOnly, 0x11111111, make([]byte, mad.Len), reason.PacketQKey},
	} {
		before := dev.Trace.Counter(c.want)
		datagram(dev, from, c.op, c.qkey, c.data)
		if n := dev.Trace.Counter(c.want) - before; n != 1 {
			t.Errorf("%s: %d refusals as %v, want 1", c.name, n, c.want)
		}
	}
	if n := link.count(); n != 0 {
		t.Errorf("%d packets sent in answer", n)
	}
}

func TestGSIClosedDeviceHasNoManager(t *testing.T) {
	dev, _ := gsiDevice(t)
	dev.Close()
	err := dev.CM(func(*cm.Manager, time.Duration) { t.Error("called") })
	if !errors.Is(err, ErrClosed) {
		t.Errorf("error %v, want %v", err, ErrClosed)
	}
}

func gsiDevice(t *testing.T) (*Device, *stub) {
	t.Helper()
	link := newStub("127.0.0.5:4791")
	dev := Open(Config{Networks: networks(link), Manual: true, MTU: 1024})
	t.Cleanup(func() { dev.Close() })
	return dev, link
}

func TestGSIHandlerGetsWhatIsNotTheManagers(t *testing.T) {
	dev, link := gsiDevice(t)
	var got []gsi.Datagram
	var dropped reason.Detail
	taken := true
	handler := func(d *gsi.Datagram) (bool, reason.Detail) {
		got = append(got, *d)
		return taken, dropped
	}
	if err := dev.GSI(func(g *gsi.GSI, _ time.Duration) { g.Handler = handler }); err != nil {
		t.Fatal(err)
	}
	var b [mad.Len]byte
	from := netip.MustParseAddrPort("127.0.0.9:50000")
	deliver := func(h mad.Header, n int, want int, refused reason.Reason) {
		t.Helper()
		h.Put(&b)
		got = nil
		before := dev.Trace.Counter(refused)
		datagram(dev, from, ib.UDSendOnly, gsi.QKey, b[:n])
		if len(got) != want || refused != reason.None && dev.Trace.Counter(refused) != before+1 {
			t.Errorf("%+v, %d bytes: the handler got %d, expected %d; %d refusals as %v", h, n, len(got), want, dev.Trace.Counter(refused)-before, refused)
		}
	}
	query := mad.Header{BaseVersion: mad.BaseVersion, Class: mad.ClassPerformance, Method: mad.MethodGet}
	deliver(query, mad.Len, 1, reason.None)
	if d := got[0]; d.Path.Dst != netip.MustParseAddrPort("127.0.0.9:4791") || d.QPN != gsi.QPN || d.MAD != b {
		t.Errorf("datagram %+v", d)
	}
	deliver(query, mad.Len-4, 0, reason.MADLength)
	deliver(mad.Header{BaseVersion: 2, Class: mad.ClassPerformance}, mad.Len, 0, reason.MADVersion)
	deliver(mad.NewHeader(99, 1), mad.Len, 0, reason.MADAttribute)
	taken = false
	deliver(query, mad.Len, 1, reason.MADClass)
	dropped.Reason = reason.MADReceiveQueue
	deliver(query, mad.Len, 1, reason.MADReceiveQueue)
	if err := dev.GSI(func(g *gsi.GSI, _ time.Duration) { g.Handler = nil }); err != nil {
		t.Fatal(err)
	}
	deliver(query, mad.Len, 0, reason.MADClass)
	if n := link.count(); n != 0 {
		t.Errorf("%d packets sent in answer", n)
	}
}

func TestGSISendsDatagrams(t *testing.T) {
	dev, link := gsiDevice(t)
	d := &gsi.Datagram{QPN: 0x123, MAD: [mad.Len]byte{7: 1}}
	d.Path.Dst = netip.MustParseAddrPort("127.0.0.9:4791")
	if err := dev.SendMAD(d); err != nil {
		t.Fatal(err)
	}
	var sent ib.Packet
	if link.count() != 1 || sent.Parse(link.sent[0]) != ib.OK {
		t.Fatalf("%d packets sent", link.count())
	}
	if sent.DestQPN != 0x123 || sent.DETH != (ib.DETH{QKey: gsi.QKey, SrcQPN: gsi.QPN}) || [mad.Len]byte(sent.Payload) != d.MAD {
		t.Errorf("sent to QPN %d with %+v, % x", sent.DestQPN, sent.DETH, sent.Payload)
	}
	g := gsi.New(false, cm.Config{})
	for range gsi.MaxQueued {
		if err := g.Send(d); err != nil {
			t.Fatal(err)
		}
	}
	var full *reason.Error
	if err := g.Send(d); !errors.As(err, &full) || full.Detail.Reason != reason.MADSendQueue {
		t.Errorf("one datagram too many: %v", err)
	}
	for range gsi.MaxQueued {
		if !g.Next(0, &machine.Out{}) {
			t.Fatal("a datagram is missing")
		}
	}
	if g.Next(0, &machine.Out{}) {
		t.Error("more datagrams than were queued")
	}
}
