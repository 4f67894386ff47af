package capture

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"softrdma/internal/reason"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// FuzzReader reads and analyses malformed files: no panic, and no packet longer
// than the file.
func FuzzReader(f *testing.F) {
	var events []*trace.Event
	for _, p := range everyOpcode() {
		events = append(events, event(trace.Sent, hostA, hostB, 7, p))
	}
	events = append(events, &trace.Event{Kind: trace.Refused, Detail: reason.Detail{Reason: reason.KeyBounds}})
	f.Add(writeAll(f, events...))
	f.Add(classic(f, layers.LinkTypeRaw, datagram(f, event(trace.Sent, v6A, v6B, 99, op(ib.UCSendFirst, 7, 256)))))
	f.Add(classic(f, layers.LinkTypeLinuxSLL2, make([]byte, 40)))
	for _, w := range wrappings {
		f.Add(wrapped(f, w.link, w.wrap, 2))
	}
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00")) // an empty file in gzip
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := NewReader(bytes.NewReader(file))
		if err != nil {
			return
		}
		a := NewAnalyzer()
		for {
			var p Packet
			if err := r.Next(&p); err != nil {
				break
			}
			if len(p.Data) > len(file) && !bytes.HasPrefix(file, []byte{0x1f, 0x8b}) { // gzip
				t.Fatalf("packet of %d bytes in a file of %d", len(p.Data), len(file))
			}
			if s := Line(&p, p.Time, a.Add(&p)); strings.Contains(s, "\n") || strings.Contains(s, "%!") {
				t.Fatalf("line is %q", s)
			}
		}
		a.Connections()
		frames, read := r.Packets()
		for _, n := range r.Skipped() {
			frames -= n
		}
		// A frame may have several packets, a packet several fragments.
		if frames < 0 || read == 0 && frames > 0 {
			t.Fatalf("%d frames are neither read nor skipped", frames)
		}
	})
}

// FuzzAnalyzer analyses generated packets: each four bytes are an opcode, a PSN
// increment, a length and a direction.
func FuzzAnalyzer(f *testing.F) {
	f.Add([]byte{0, 0, 64, 0, 2, 1, 1, 0, 0x11, 0, 0, 1, 12, 1, 200, 0, 13, 0, 64, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := newScript(t)
		var at uint32
		for ; len(b) >= 4; b = b[4:] {
			o := ib.Opcode(b[0])
			i := o.Info()
			if i == nil {
				continue
			}
			at += uint32(int8(b[1]))
			x := op(o, 0, 0)
			x.PSN = x.PSN.Add(int(at))
			if i.Payload {
				x.Payload = make([]byte, int(b[2])*4)
			}
			x.RETH.Length = uint32(b[2]) << (b[3] >> 3)
			x.AETH.Syndrome = ib.Syndrome(b[3])
			src, dst := hostA, hostB
			if b[3]&1 != 0 {
				src, dst = backB, backA
			}
			p := s.packet(src, dst, x)
			if line := Line(p, p.Time, s.a.Add(p)); strings.Contains(line, "%!") {
				t.Fatal(line)
			}
		}
	})
}
