package attack_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"softrdma/internal/attack"
	"softrdma/internal/attack/honest"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad"
	"softrdma/verbs"
)

// A managed is a connection under attack, with the two messages that established it, as
// an attacker on the path sees them.
type managed struct {
	*honest.Server
	conn   net.Conn
	req    mad.REQ // sent by the client
	rep    mad.REP // sent by the server
	sender attack.Sender
}

func aimManaged(t *testing.T, r route) *managed {
	t.Helper()
	g := &managed{Server: honest.NewServer(t, honest.ServerConfig{Server: r.victim, Client: client(r.victim)}), sender: r.sender(t)}
	heard := honest.Overhear(t, g.Server.Dev, func() {
		g.conn = g.Dial(t)
		g.Echo(t, g.conn, 1000)
	})
	for _, p := range heard {
		var h mad.Header
		if p.DestQPN != mad.GSIQPN {
			continue
		}
		d, _ := mad.ParseHeader(p.Payload, &h)
		switch {
		case d != nil && h.Attribute == mad.AttrREQ:
			g.req.Parse(d)
		case d != nil && h.Attribute == mad.AttrREP:
			g.rep.Parse(d)
		}
	}
	if g.req.LocalID == 0 || g.rep.LocalID == 0 {
		t.Fatalf("no REQ and REP among %d packets", len(heard))
	}
	return g
}

// A forgery is a message that claims to come from the other end.
type forgery struct {
	attribute mad.AttributeID
	body      attack.Body
	reason    string
}

// strike sends a forgery n times to a device and waits until it is refused n times.
func (g *managed) strike(to *verbs.Device, src netip.Addr, n int, f forgery) error {
	before := honest.Refusals(to)
	for i := range n {
		d := attack.Message(netip.AddrPortFrom(src, 50000), to.Addr(), f.attribute, uint64(i), f.body)
		if err := g.sender.Send(d); err != nil {
			return err
		}
	}
	if err := honest.Refused(to, before, uint64(n), f.reason); err != nil {
		return fmt.Errorf("%v: %w", f.attribute, err)
	}
	return nil
}

// unasked is the reason for refusing an answer to a REQ or a service ID resolution that
// was never sent or is already answered.
const unasked = "CM_COMM_ID"

// messages returns all messages that end or change a connection with communication IDs,
// given from the sender's view.
func messages(local, remote, qpn uint32, reason string) []forgery {
	return []forgery{
		{mad.AttrDREQ, &mad.DREQ{LocalID: local, RemoteID: remote, RemoteQPN: qpn}, reason},
		{mad.AttrDREP, &mad.DREP{LocalID: local, RemoteID: remote}, reason},
		{mad.AttrREJ, &mad.REJ{LocalID: local, RemoteID: remote, Of: mad.OfREQ, Reason: mad.RejectConsumer}, unasked},
		{mad.AttrREJ, &mad.REJ{LocalID: local, RemoteID: remote, Of: mad.OfREP, Reason: mad.RejectStaleConnection}, reason},
		{mad.AttrREJ, &mad.REJ{LocalID: local, RemoteID: remote, Of: mad.OfOther, Reason: mad.RejectTimeout, InfoLen: 8}, reason},
		{mad.AttrREP, &mad.REP{LocalID: local, RemoteID: remote, QPN: qpn}, reason},
		{mad.AttrRTU, &mad.RTU{LocalID: local, RemoteID: remote}, reason},
		{mad.AttrMRA, &mad.MRA{LocalID: local, RemoteID: remote, Of: mad.OfREQ, ServiceTimeout: 31}, unasked},
		{mad.AttrMRA, &mad.MRA{LocalID: local, RemoteID: remote, Of: mad.OfREP, ServiceTimeout: 31}, reason},
		{mad.AttrLAP, &mad.LAP{LocalID: local, RemoteID: remote}, "CM_ALTERNATE_PATH"},
		{mad.AttrAPR, &mad.APR{LocalID: local, RemoteID: remote}, "CM_ALTERNATE_PATH"},
		{mad.AttrSIDRRep, &mad.SIDRRep{RequestID: remote}, unasked},
	}
}

// Messages that end or change a connection, from the peer's address, in which at least
// one communication ID is wrong.
func TestAttackForgedMessagesWithWrongIDs(t *testing.T) {
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			honest.LeavesNothing(t)
			g := aimManaged(t, r)
			client, server := g.Client.Addr().Addr(), g.Dev.Addr().Addr()
			wrong := g.req.LocalID ^ 1
			honest.Meanwhile(t, func() error {
				for _, ids := range [][2]uint32{{rand.Uint32(), rand.Uint32() | 1}, {wrong, g.rep.LocalID}, {g.req.LocalID, g.rep.LocalID ^ 1}} {
					for _, f := range messages(ids[0], ids[1], g.rep.QPN, "CM_COMM_ID") {
						if err := g.strike(g.Dev, client, attack.Count(5), f); err != nil {
							return err
						}
					}
				}
				for _, f := range messages(g.rep.LocalID^1, g.req.LocalID, g.req.QPN, "CM_COMM_ID") {
					if err := g.strike(g.Client, server, attack.Count(5), f); err != nil {
						return err
					}
				}
				return nil
			}, func() { g.Echo(t, g.conn, 10000); g.Round(t, 100) })
		})
	}
}

// Messages with both communication IDs, from an attacker who saw them, in which
// something else is wrong.
func TestAttackForgedMessagesWithRightIDs(t *testing.T) {
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			honest.LeavesNothing(t)
			g := aimManaged(t, r)
			peer, other := g.Client.Addr().Addr(), forged(g.Dev.Addr()).Addr()
			local, remote := g.req.LocalID, g.rep.LocalID
			double := g.req
			honest.Meanwhile(t, func() error {
				// None is accepted from another host.
				for _, f := range messages(local, remote, g.rep.QPN, "CM_SOURCE") {
					if err := g.strike(g.Dev, other, attack.Count(5), f); err != nil {
						return err
					}
				}
				for _, f := range []forgery{
					{mad.AttrDREQ, &mad.DREQ{LocalID: local, RemoteID: remote, RemoteQPN: g.rep.QPN ^ 1}, "CM_QPN"},
					{mad.AttrREQ, &double, "CM_DUPLICATE"},
					{mad.AttrRTU, &mad.RTU{LocalID: local, RemoteID: remote}, "CM_DUPLICATE"},
					{mad.AttrDREP, &mad.DREP{LocalID: local, RemoteID: remote}, "CM_STATE"},
					{mad.AttrMRA, &mad.MRA{LocalID: local, RemoteID: remote, Of: mad.OfREP, ServiceTimeout: 31}, "CM_STATE"},
					{mad.AttrMRA, &mad.MRA{LocalID: local, RemoteID: remote, Of: mad.OfREQ, ServiceTimeout: 31}, unasked},
					{mad.AttrLAP, &mad.LAP{LocalID: local, RemoteID: remote}, "CM_ALTERNATE_PATH"},
				} {
					if err := g.strike(g.Dev, peer, attack.Count(5), f); err != nil {
						return err
					}
				}
				// To the client: the server's reply again.
				again := g.rep
				return g.strike(g.Client, g.Dev.Addr().Addr(), attack.Count(5), forgery{mad.AttrREP, &again, "CM_DUPLICATE"})
			}, func() { g.Echo(t, g.conn, 10000); g.Round(t, 100) })
		})
	}
}

// Management datagrams that are not valid communication manager messages.
func TestAttackMalformedMessages(t *testing.T) {
	header := func(change func(h *mad.Header)) []byte {
		var d [mad.Len]byte
		h := mad.NewHeader(mad.AttrDREQ, 1)
		change(&h)
		h.Put(&d)
		return d[:]
	}
	same := func(*mad.Header) {}
	gsi := func(op ib.Opcode, qkey uint32) func(src, dst netip.AddrPort) attack.Datagram {
		return func(src, dst netip.AddrPort) attack.Datagram {
			return attack.Packet(src, dst, ib.Packet{
				BTH: ib.BTH{Opcode: op, DestQPN: mad.GSIQPN}, DETH: ib.DETH{QKey: qkey, SrcQPN: mad.GSIQPN}, Payload: header(same),
			})
		}
	}
	datagram := func(b []byte) func(src, dst netip.AddrPort) attack.Datagram {
		return func(src, dst netip.AddrPort) attack.Datagram { return attack.Management(src, dst, b) }
	}
	cases := []struct {
		reason string
		craft  func(src, dst netip.AddrPort) attack.Datagram
	}{
		{"MAD_LENGTH", datagram(header(same)[:255])},
		{"MAD_LENGTH", datagram(make([]byte, 1024))},
		{"MAD_LENGTH", datagram(nil)},
		{"MAD_VERSION", datagram(header(func(h *mad.Header) { h.BaseVersion = 9 }))},
		{"MAD_CLASS", datagram(header(func(h *mad.Header) { h.Class = 0x81 }))},
		{"MAD_CLASS_VERSION", datagram(header(func(h *mad.Header) { h.ClassVersion = 1 }))},
		{"MAD_METHOD", datagram(header(func(h *mad.Header) { h.Method = 0x01 }))},
		{"MAD_ATTRIBUTE", datagram(header(func(h *mad.Header) { h.Attribute = 0x99 }))},
		{"PACKET_QKEY", gsi(ib.UDSendOnly, 0x80010001)},
		{"PACKET_OPCODE", gsi(ib.UDSendOnlyImm, mad.GSIQKey)},
	}
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			honest.LeavesNothing(t)
			g := aimManaged(t, r)
			src, dst := forged(g.Dev.Addr()), g.Dev.Addr()
			honest.Meanwhile(t, func() error {
				for _, c := range cases {
					before, n := honest.Refusals(g.Dev), attack.Count(20)
					for range n {
						if err := g.sender.Send(c.craft(src, dst)); err != nil {
							return err
						}
					}
					if err := honest.Refused(g.Dev, before, uint64(n), c.reason); err != nil {
						return err
					}
				}
				return nil
			}, func() { g.Echo(t, g.conn, 10000); g.Round(t, 100) })
		})
	}
}
