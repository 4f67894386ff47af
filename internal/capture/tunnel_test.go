package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"softrdma/internal/psn"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// outer puts a payload into an IPv4 packet of a protocol, in an Ethernet frame.
func outer(protocol byte, payload ...[]byte) []byte {
	b := bytes.Join(payload, nil)
	ip := []byte{0x45, 0, 0, 0, 0, 7, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2}
	binary.BigEndian.PutUint16(ip[2:], uint16(20+len(b)))
	return join([]byte("\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02\x08\x00"), ip, b)
}

func udp(port uint16, payload ...[]byte) []byte {
	b := bytes.Join(payload, nil)
	return join(be16(55555), be16(port), be16(uint16(8+len(b))), be16(0), b)
}

func join(b ...[]byte) []byte { return bytes.Join(b, nil) }

// erf makes an ERF record of an Ethernet frame, with extension headers.
func erf(kind byte, extensions, frame []byte) []byte {
	if len(extensions) > 0 {
		kind |= erfMore
	}
	n := uint16(erfHeaderLen + len(extensions) + erfEthernetPad + len(frame))
	return join(make([]byte, 8), []byte{kind, 4}, be16(n), be16(0), be16(uint16(len(frame))), extensions, []byte{0, 0}, frame)
}

// wrappings are the forms of captures from mirror ports, overlays and routers. Each makes
// frames from an IPv4 packet.
var wrappings = []struct {
	name string
	link layers.LinkType
	wrap func(ip []byte) [][]byte
}{
	{"VLAN 0x9100", layers.LinkTypeEthernet, one(func(ip []byte) []byte {
		return join(make([]byte, 12), []byte("\x91\x00\x00\x0a\x81\x00\x60\x64\x08\x00"), ip)
	})},
	{"PPP", layers.LinkTypePPP, one(func(ip []byte) []byte { return join([]byte("\xff\x03\x00\x21"), ip) })},
	{"PPPoE", layers.LinkTypeEthernet, one(func(ip []byte) []byte {
		return join(make([]byte, 12), []byte("\x88\x64\x11\x00\x00\x01"), be16(uint16(2+len(ip))), []byte("\x00\x21"), ip)
	})},
	{"MPLS", layers.LinkTypeEthernet, one(func(ip []byte) []byte {
		return join(make([]byte, 12), []byte("\x88\x47\x00\x02\x00\x40\x00\x01\x01\x40"), ip)
	})},
	{"VXLAN", layers.LinkTypeEthernet, one(func(ip []byte) []byte {
		return outer(17, udp(4789, []byte("\x08\x00\x00\x00\x00\x00\x64\x00"), etherFrame(ip)))
	})},
	{"Geneve", layers.LinkTypeEthernet, one(func(ip []byte) []byte {
		return outer(17, udp(6081, []byte("\x01\x00\x65\x58\x00\x00\x64\x00\x01\x02\x03\x00"), etherFrame(ip)))
	})},
	{"GRE", layers.LinkTypeEthernet, one(func(ip []byte) []byte { return outer(47, []byte("\x00\x00\x08\x00"), ip) })},
	{"NVGRE", layers.LinkTypeEthernet, one(func(ip []byte) []byte {
		return outer(47, []byte("\x20\x00\x65\x58\x00\x00\x64\x00"), etherFrame(ip))
	})},
	{"ERSPAN I", layers.LinkTypeEthernet, one(func(ip []byte) []byte { return outer(47, []byte("\x00\x00\x88\xbe"), etherFrame(ip)) })},
	{"ERSPAN II", layers.LinkTypeEthernet, one(func(ip []byte) []byte {
		return outer(47, []byte("\x10\x00\x88\xbe\x00\x00\x00\x01\x10\x01\x00\x01\x00\x00\x00\x00"), etherFrame(ip))
	})},
	{"ERSPAN III", layers.LinkTypeEthernet, one(func(ip []byte) []byte {
		return outer(47, []byte("\x10\x00\x22\xeb\x00\x00\x00\x01\x20\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"), etherFrame(ip))
	})},
	{"ERSPAN III with a subheader", layers.LinkTypeEthernet, one(func(ip []byte) []byte {
		return outer(47, []byte("\x10\x00\x22\xeb\x00\x00\x00\x01\x20\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"), etherFrame(ip))
	})},
	{"IP in IP", layers.LinkTypeEthernet, one(func(ip []byte) []byte { return outer(4, ip) })},
	{"ERF", linkERF, one(func(ip []byte) []byte { return erf(erfEthernet, nil, etherFrame(ip)) })},
	{"ERF with extension headers", linkERF, one(func(ip []byte) []byte {
		return erf(erfEthernet, []byte("\x83\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00"), etherFrame(ip))
	})},
	{"fragments", layers.LinkTypeEthernet, func(ip []byte) [][]byte { return frames(fragments4(ip, 16)) }},
	{"fragments in disorder", layers.LinkTypeEthernet, func(ip []byte) [][]byte {
		all := frames(fragments4(ip, 8))
		for i := range len(all) / 2 {
			all[i], all[len(all)-1-i] = all[len(all)-1-i], all[i]
		}
		return all
	}},
	{"fragments of VXLAN", layers.LinkTypeEthernet, func(ip []byte) [][]byte {
		return frames(fragments4(outer(17, udp(4789, []byte("\x08\x00\x00\x00\x00\x00\x64\x00"), etherFrame(ip)))[14:], 64))
	}},
}

func one(wrap func(ip []byte) []byte) func([]byte) [][]byte {
	return func(ip []byte) [][]byte { return [][]byte{wrap(ip)} }
}

func etherFrame(ip []byte) []byte { return join(make([]byte, 12), be16(0x0800), ip) }

func frames(packets [][]byte) (all [][]byte) {
	for _, p := range packets {
		all = append(all, etherFrame(p))
	}
	return all
}

// fragments4 divides an IPv4 packet into fragments of n bytes, a multiple of 8.
func fragments4(ip []byte, n int) (all [][]byte) {
	body := ip[20:]
	for at := 0; at < len(body); at += n {
		part := body[at:min(at+n, len(body))]
		f := join(ip[:20], part)
		field := binary.BigEndian.Uint16(ip[6:]) | uint16(at/8)
		if at+n < len(body) {
			field |= 0x2000
		}
		binary.BigEndian.PutUint16(f[2:], uint16(len(f)))
		binary.BigEndian.PutUint16(f[6:], field)
		binary.BigEndian.PutUint16(f[10:], 0)
		binary.BigEndian.PutUint16(f[10:], gopacket.FoldChecksum(gopacket.ComputeChecksum(f[:20], 0)))
		all = append(all, f)
	}
	return all
}

// wrapped returns a file of packets with the PSNs 0, 1 and so on.
func wrapped(t testing.TB, link layers.LinkType, wrap func([]byte) [][]byte, packets int) []byte {
	var all [][]byte
	for n := range packets {
		ip := datagram(t, event(trace.Sent, hostA, hostB, 99, op(ib.RCSendOnly, psn.PSN(n), 40)))
		binary.BigEndian.PutUint16(ip[4:], uint16(n)) // fragments need an identification
		ib.PutICRC(ip[len(ip)-ib.ICRCLen:], sumOf(t, ip))
		all = append(all, wrap(ip)...)
	}
	return classic(t, link, all...)
}

func sumOf(t testing.TB, ip []byte) uint32 {
	sum, ok := ib.SumCaptured(ip[:28], ip[28:])
	if !ok {
		t.Fatal("the ICRC cannot be computed")
	}
	return sum
}

func TestReaderFindsPacketsInTagsAndTunnels(t *testing.T) {
	for _, w := range wrappings {
		t.Run(w.name, func(t *testing.T) {
			const packets = 3
			file := wrapped(t, w.link, w.wrap, packets)
			all := readAll(t, file)
			var got, want []string
			for n, p := range all {
				if p.ICRC != Good || p.Src != hostA || p.Dst != hostB {
					t.Errorf("packet %d: ICRC %d, from %v to %v", n, p.ICRC, p.Src, p.Dst)
				}
				got = append(got, fmt.Sprint(uint32(p.PSN)))
			}
			for n := range packets {
				want = append(want, fmt.Sprint(n))
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("PSNs %v, expected %v", got, want)
			}
			out := tshark(t, file, "-Y", "infiniband", "-T", "fields", "-e", "infiniband.bth.psn")
			if peer := strings.Fields(out); strings.Join(peer, " ") != strings.Join(want, " ") {
				t.Errorf("tshark finds the PSNs %v, expected %v", peer, want)
			}
		})
	}
}

func TestReaderReadsGzip(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(writeAll(t, event(trace.Sent, hostA, hostB, 0, op(ib.RCSendOnly, 1, 4))))
	z.Close()
	if all := readAll(t, b.Bytes()); len(all) != 1 {
		t.Errorf("%d packets, expected 1", len(all))
	}
}

func TestReaderRefusesShortFilesInGzip(t *testing.T) {
	for n := range 4 {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(make([]byte, n))
		z.Close()
		if _, err := NewReader(&b); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d bytes", n)) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestReaderNamesSkippedFrames(t *testing.T) {
	ip := datagram(t, event(trace.Sent, hostA, hostB, 99, op(ib.RCSendOnly, 7, 40)))
	tcp := bytes.Clone(ip)
	tcp[9] = 6
	for name, c := range map[string]struct {
		link  layers.LinkType
		frame []byte
		want  string
	}{
		"TCP":               {layers.LinkTypeEthernet, etherFrame(tcp), "TCP"},
		"TCP in VXLAN":      {layers.LinkTypeEthernet, outer(17, udp(4789, []byte("\x08\x00\x00\x00\x00\x00\x64\x00"), etherFrame(tcp))), "TCP"},
		"UDP":               {layers.LinkTypeEthernet, outer(17, udp(999, make([]byte, 40))), "UDP to port 999"},
		"empty datagram":    {layers.LinkTypeEthernet, outer(17, udp(4791)), "empty datagrams to UDP port 4791"},
		"ARP":               {layers.LinkTypeEthernet, join(make([]byte, 12), be16(0x0806), []byte{0, 1, 8, 0, 6, 4, 0, 1}, make([]byte, 20)), "ARP"},
		"ICMP that quotes":  {layers.LinkTypeEthernet, outer(1, []byte{3, 3, 0, 0, 0, 0, 0, 0}, ip), "ICMPv4"},
		"unknown EtherType": {layers.LinkTypeEthernet, join(make([]byte, 12), be16(0x1234), make([]byte, 40)), "EtherType 0x1234"},
		"unknown protocol":  {layers.LinkTypeEthernet, outer(200, make([]byte, 40)), "IP protocol 200"},
		"RoCE v1":           {layers.LinkTypeEthernet, join(make([]byte, 12), be16(0x8915), make([]byte, 60)), "RoCE v1 without a transport header"},
		"link type":         {147, make([]byte, 40), "frames of link type 147"},
		"ERF":               {linkERF, erf(1, nil, make([]byte, 40)), "ERF records of another type"},
		"InfiniBand":        {linkInfiniBand, make([]byte, 40), "InfiniBand without a transport header"},
		"empty":             {layers.LinkTypeEthernet, nil, "damaged or empty frames"},
		"cut":               {layers.LinkTypeEthernet, etherFrame(ip)[:30], "damaged after the header of IPv4"},
		"fragment":          {layers.LinkTypeEthernet, frames(fragments4(ip, 16))[1], "incomplete IPv4 fragments"},
	} {
		r, err := NewReader(bytes.NewReader(classic(t, c.link, c.frame, c.frame)))
		if err != nil {
			t.Fatal(err)
		}
		for r.Next(new(Packet)) == nil {
			t.Errorf("%s: a packet was found", name)
		}
		if got := r.Skipped(); len(got) != 1 || got[c.want] != 2 {
			t.Errorf("%s: skipped %v, expected 2 of %q", name, got, c.want)
		}
	}
}

func TestReaderKindsOfSkippedFramesAreBounded(t *testing.T) {
	var all [][]byte
	for port := range uint16(2 * maxKinds) {
		all = append(all, outer(17, udp(20000+port, make([]byte, 8))))
	}
	r, err := NewReader(bytes.NewReader(classic(t, layers.LinkTypeEthernet, all...)))
	if err != nil {
		t.Fatal(err)
	}
	for r.Next(new(Packet)) == nil {
		t.Error("a packet was found")
	}
	if got := r.Skipped(); len(got) != maxKinds+1 || got["others"] != maxKinds {
		t.Errorf("%d kinds, %d others, expected %d and %d", len(got), got["others"], maxKinds+1, maxKinds)
	}
}

// parsed returns the IPv4 header of a frame.
func parsed(t *testing.T, packet []byte) *layers.IPv4 {
	var ip layers.IPv4
	if err := ip.DecodeFromBytes(packet, noFeedback{}); err != nil {
		t.Fatal(err)
	}
	return &ip
}

type noFeedback struct{}

func (noFeedback) SetTruncated() {}

func TestFragmentsTakeBoundedMemory(t *testing.T) {
	ip := datagram(t, event(trace.Sent, hostA, hostB, 99, op(ib.RCSendOnly, 7, 4000)))
	var f fragments
	dropped := false
	for n := range 3 * maxFragmentBytes / len(ip) {
		binary.BigEndian.PutUint16(ip[4:], uint16(n))
		ip[15] = byte(n >> 16)
		before := f.bytes
		if f.add(parsed(t, fragments4(ip, 3992)[0]), epoch) != nil {
			t.Fatal("a fragment became a datagram")
		}
		dropped = dropped || f.bytes < before
		if f.bytes > maxFragmentBytes+2*len(ip) {
			t.Fatalf("%d bytes are held, expected at most %d", f.bytes, maxFragmentBytes)
		}
	}
	if !dropped || f.incomplete() != 3*maxFragmentBytes/len(ip) {
		t.Errorf("dropped %v, %d incomplete", dropped, f.incomplete())
	}
}

func TestFragmentsOfTwoDatagramsWithOneIdentificationAreNotJoinedAfterTheirTime(t *testing.T) {
	ip := datagram(t, event(trace.Sent, hostA, hostB, 99, op(ib.RCSendOnly, 7, 40)))
	parts := fragments4(ip, 16)
	var f fragments
	f.add(parsed(t, parts[0]), epoch)
	for _, p := range parts[1:] {
		if f.add(parsed(t, p), epoch.Add(fragmentTime+time.Second)) != nil {
			t.Fatal("fragments of two datagrams were joined")
		}
	}
	if n := f.incomplete(); n != len(parts) {
		t.Errorf("%d incomplete, expected %d", n, len(parts))
	}
}

// If a network cleared "don't fragment" to fragment a packet, no receiver accepts its ICRC.
func TestReaderFragmentsAreNoted(t *testing.T) {
	all := readAll(t, wrapped(t, layers.LinkTypeEthernet, func(ip []byte) [][]byte {
		var cleared [][]byte
		for _, f := range fragments4(ip, 16) {
			f[6] &^= 0x40
			cleared = append(cleared, etherFrame(f))
		}
		return cleared
	}, 1))
	if len(all) != 1 || !all[0].Reassembled || all[0].ICRC != Bad {
		t.Fatalf("%d packets: %+v", len(all), all)
	}
	line := Line(&all[0], epoch, NewAnalyzer().Add(&all[0]))
	if !strings.Contains(line, "[note: the packet came in IP fragments") || !strings.Contains(line, "PACKET_ICRC") {
		t.Error(line)
	}
}
