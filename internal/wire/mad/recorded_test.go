package mad

import (
	"bufio"
	"net/netip"
	"os"
	"strings"
	"testing"

	"softrdma/internal/reason"
)

// A recording is a datagram that Linux sent; the name tells message and sender.
type recording struct {
	name   string
	mad    [Len]byte
	sender netip.Addr
}

// recordings reads testdata/rxe_cm.txt, whose head tells where it comes from.
func recordings(t *testing.T) (all []recording) {
	t.Helper()
	f, err := os.Open("testdata/rxe_cm.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		name, bytes, ok := strings.Cut(s.Text(), " ")
		if name == "#" || name == "" {
			continue
		}
		_, from, named := strings.Cut(name, "_from_")
		if !ok || !named {
			t.Fatalf("line %q", s.Text())
		}
		all = append(all, recording{name, unhex(t, bytes), netip.MustParseAddr(from)})
	}
	if len(all) < 30 {
		t.Fatalf("%d recordings", len(all))
	}
	return all
}

// fresh makes the message of an attribute.
func fresh(a AttributeID) message {
	switch a {
	case AttrREQ:
		return new(REQ)
	case AttrMRA:
		return new(MRA)
	case AttrREJ:
		return new(REJ)
	case AttrREP:
		return new(REP)
	case AttrRTU:
		return new(RTU)
	case AttrDREQ:
		return new(DREQ)
	case AttrDREP:
		return new(DREP)
	case AttrSIDRReq:
		return new(SIDRReq)
	case AttrSIDRRep:
		return new(SIDRRep)
	}
	return nil
}

// What Linux sent is read, and written again it is the same, byte for byte.
func TestRecordedMessagesRoundTrip(t *testing.T) {
	seen := map[AttributeID]int{}
	for _, r := range recordings(t) {
		var h Header
		d, why := ParseHeader(r.mad[:], &h)
		if why.Reason != reason.None {
			t.Errorf("%s: %v", r.name, why)
			continue
		}
		if want := strings.ReplaceAll(h.Attribute.String(), " ", "_"); !strings.Contains(r.name, "_"+want+"_") {
			t.Errorf("%s: read as %v", r.name, h.Attribute)
		}
		m := fresh(h.Attribute)
		if m == nil {
			t.Errorf("%s: no message for %v", r.name, h.Attribute)
			continue
		}
		seen[h.Attribute]++
		m.Parse(d)
		var again [Len]byte
		h.Put(&again)
		m.Put(&again)
		for i := range again {
			if again[i] != r.mad[i] {
				t.Errorf("%s: byte %d written as %#02x, recorded %#02x", r.name, i, again[i], r.mad[i])
			}
		}
	}
	for _, a := range []AttributeID{AttrREQ, AttrMRA, AttrREJ, AttrREP, AttrRTU, AttrDREQ, AttrDREP, AttrSIDRReq, AttrSIDRRep} {
		if seen[a] == 0 {
			t.Errorf("no recording of a %v", a)
		}
	}
}

// The requests' addresses stand where annex A11 puts them, and in the path.
func TestRecordedRequestsHaveTheirAddresses(t *testing.T) {
	for _, r := range recordings(t) {
		var h Header
		d, _ := ParseHeader(r.mad[:], &h)
		var ip IPHeader
		switch h.Attribute {
		case AttrREQ:
			var m REQ
			m.Parse(d)
			if !ip.Parse(m.Private[:]) || m.Primary.LocalGID != GIDFrom(r.sender) {
				t.Errorf("%s: addresses %+v, GID %v", r.name, ip, m.Primary.LocalGID)
			}
			if _, port, ok := m.Service.Port(); !ok || port == 0 {
				t.Errorf("%s: service %v", r.name, m.Service)
			}
			if port, ok := m.Announcement.Port(); ok {
				t.Errorf("%s: announces port %d as only softrdma does", r.name, port)
			}
		case AttrSIDRReq:
			var m SIDRReq
			m.Parse(d)
			if !ip.Parse(m.Private[:]) {
				t.Errorf("%s: addresses %+v", r.name, ip)
			}
		default:
			continue
		}
		if ip.Src.Unmap() != r.sender {
			t.Errorf("%s: source %v", r.name, ip.Src)
		}
	}
}
