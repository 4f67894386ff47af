package dcb

import (
	"bytes"
	"encoding/binary"
	"testing"

	"softrdma/internal/reason"
	"softrdma/internal/wire/ethernet"
)

// packet makes a frame of UDP, over IPv4 or IPv6, with or without a tag.
func packet(v6, tagged bool, srcPort uint16) []byte {
	h := ethernet.Header{Dst: Address(2).MAC(), Src: Address(1).MAC(), Tagged: tagged, Tag: ethernet.NewTag(7, 5), Type: ethernet.TypeIPv4}
	ip := make([]byte, ipv4Len)
	if v6 {
		h.Type, ip = ethernet.TypeIPv6, make([]byte, ipv6Len)
		ip[0], ip[1], ip[6], ip[7], ip[23], ip[39] = 0x66, 0x80, protocolUDP, 9, 1, 2 // DSCP 26
	} else {
		ip[0], ip[1], ip[8], ip[9], ip[15], ip[19] = 0x45, 26<<2, 9, protocolUDP, 1, 2
	}
	b := make([]byte, ethernet.HeaderLen+ethernet.TagLen)
	b = append(b[:h.Put(b)], ip...)
	b = binary.BigEndian.AppendUint16(b, srcPort)
	return append(b, 0x12, 0xb7, 0, 8, 0, 0)
}

func TestFrameHasTheFieldsOfItsHeaders(t *testing.T) {
	flows := map[uint64]bool{}
	for _, v6 := range []bool{false, true} {
		for _, tagged := range []bool{false, true} {
			for port := range uint16(3) {
				f := Frame{Data: packet(v6, tagged, 49152+port)}
				if d := f.Parse(); d.Reason != reason.None || !f.IP || f.DSCP != 26 || f.Hops != 9 || f.Tagged != tagged || tagged && (f.VLAN != 7 || f.PCP != 5) || f.Src != 1 || f.Dst != 2 {
					t.Errorf("%v: %+v", d, f)
				}
				flows[f.Flow] = true
			}
		}
		for n := range packet(v6, true, 1) {
			f := Frame{Data: packet(v6, true, 1)[:n]}
			if d := f.Parse(); n < ethernet.HeaderLen+ethernet.TagLen+ipv4Len && d.Reason != reason.EthernetLength {
				t.Errorf("%d bytes: %v", n, d)
			}
		}
	}
	if len(flows) != 2*3 {
		t.Errorf("%d flows, expected one for each source port of each protocol", len(flows))
	}
	pause := Frame{Data: (&ethernet.Control{Op: ethernet.OpPFC, Enable: 8, Quanta: [8]uint16{3: 7}}).Append(nil)}
	if d := pause.Parse(); d.Reason != reason.None || pause.Op != ethernet.OpPFC || pause.Enable != 8 || pause.Quanta[3] != 7 || pause.Len != MinFrame {
		t.Errorf("%v: %+v", d, pause)
	}
}

// FuzzFrame changes any frame as switches do, and compares the fields with its content.
func FuzzFrame(f *testing.F) {
	f.Add(packet(false, false, 1))
	f.Add(packet(true, true, 2))
	f.Add((&ethernet.Control{Op: ethernet.OpPause, Enable: 0xff}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		k := Frame{Data: bytes.Clone(b)}
		if k.Parse().Reason != reason.None {
			return
		}
		if k.IP && k.Hops > 0 {
			k.Forward(3, 4)
		}
		if k.IP && k.ECN != NotECT {
			k.Mark()
		}
		if k.IP {
			k.Remark(k.DSCP ^ 0x29)
		}
		k.Tag(true, 9, 6)
		again := Frame{Data: bytes.Clone(k.Data)}
		if again.Parse().Reason != reason.None || again.Dst != k.Dst || again.Src != k.Src || again.Hops != k.Hops || again.ECN != k.ECN || again.VLAN != 9 || again.PCP != 6 || again.DSCP != k.DSCP {
			t.Errorf("%+v came back as %+v", k, again)
		}
		if k.Tag(false, 0, 0); len(k.Data) > len(b) {
			t.Errorf("%d bytes, expected %d", len(k.Data), len(b))
		}
	})
}
