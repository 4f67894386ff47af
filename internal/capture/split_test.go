package capture

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"softrdma/internal/psn"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// offload builds a frame as captured with segmentation offload: the first packet's
// headers, with the length of the whole frame, and then all packets' bytes.
func offload(t *testing.T, src, dst netip.AddrPort, id uint16, sizes ...int) []byte {
	t.Helper()
	var frame []byte
	head := 0
	for n, size := range sizes {
		e := event(trace.Sent, src, dst, id+uint16(n), op(ib.RCSendOnly, psn.New(uint32(n)), size))
		one := datagram(t, e)
		if n == 0 {
			head = len(one) - len(bytes.Join(e.Packet.Pieces, nil))
			frame = append(frame, one[:head]...)
		}
		frame = append(frame, one[head:]...)
	}
	binary.BigEndian.PutUint16(frame[head-4:], uint16(len(frame)-head+udpLen))
	if src.Addr().Is4() {
		binary.BigEndian.PutUint16(frame[2:], uint16(len(frame)))
	} else {
		binary.BigEndian.PutUint16(frame[4:], uint16(len(frame)-ib.GRHLen))
	}
	return frame
}

func TestReaderSplitsSegmentationOffload(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes []int
	}{
		{"equal", []int{1024, 1024, 1024}},
		{"last shorter", []int{4096, 4096, 3}},
		{"small", []int{0, 0, 0, 0, 0}},
		{"two", []int{256, 100}},
	} {
		for _, ends := range [][2]netip.AddrPort{{hostA, hostB}, {v6A, v6B}} {
			frame := offload(t, ends[0], ends[1], 0xfffe, c.sizes...)
			single := datagram(t, event(trace.Sent, ends[0], ends[1], 9, op(ib.RCSendOnly, 77, 5)))
			file := classic(t, layers.LinkTypeRaw, frame, single)
			all := readAll(t, file)
			if len(all) != len(c.sizes)+1 {
				t.Errorf("%s: %d packets, expected %d", c.name, len(all), len(c.sizes)+1)
				continue
			}
			for n, p := range all[:len(c.sizes)] {
				if p.ICRC != Good || p.Fault != ib.OK || int(p.PSN) != n || len(p.Payload) != c.sizes[n] || p.Number != 1 || p.Part != n+1 {
					t.Errorf("%s: part %d read as %v, number %d.%d, ICRC %d", c.name, n+1, &p.Packet, p.Number, p.Part, p.ICRC)
				}
				if id := uint16(0xfffe + n); ends[0].Addr().Is4() && p.ID != id {
					t.Errorf("%s: part %d has identification %#x, expected %#x", c.name, n+1, p.ID, id)
				}
			}
			if last := all[len(c.sizes)]; last.Part != 0 || last.Number != 2 || last.ICRC != Good {
				t.Errorf("%s: the next packet is read as %v, number %d.%d", c.name, &last.Packet, last.Number, last.Part)
			}
		}
	}
}

func TestReaderCorruptedPartIsFoundAmongGoodOnes(t *testing.T) {
	frame := offload(t, hostA, hostB, 0, 256, 256, 256)
	frame[28+2*(12+256+4)-20] ^= 1 // in the second
	all := readAll(t, classic(t, layers.LinkTypeRaw, frame))
	if len(all) != 3 || all[0].ICRC != Good || all[1].ICRC != Bad || all[2].ICRC != Good {
		t.Fatalf("read as %d packets, expected the second of three to be bad", len(all))
	}
	if s := Line(&all[1], all[1].Time, nil); !strings.HasPrefix(s, "     1.2 ") || !strings.Contains(s, "[ICRC bad]") {
		t.Errorf("printed as %s", s)
	}
}

func TestReaderCorruptedPacketIsNotSplit(t *testing.T) {
	for _, size := range []int{0, 1024, 4096} {
		frame := datagram(t, event(trace.Sent, hostA, hostB, 9, op(ib.RCSendOnly, 77, size)))
		frame[len(frame)-1] ^= 1
		all := readAll(t, classic(t, layers.LinkTypeRaw, frame))
		if len(all) != 1 || all[0].ICRC != Bad || all[0].Part != 0 || all[0].PSN != 77 {
			t.Errorf("%d bytes: read as %d packets", size, len(all))
		}
	}
}
