package mad_test

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"softrdma/internal/testenv"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/perf"
	"softrdma/internal/wire/mad/sa"
	"softrdma/internal/wire/mad/smp"
)

// A recorded datagram is one of testdata/opensm.txt, whose head says who sent it.
type recorded struct {
	name string
	m    [mad.Len]byte
}

func opensmRecordings(t *testing.T) (all []recorded) {
	t.Helper()
	f, err := os.Open("testdata/opensm.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		name, text, _ := strings.Cut(s.Text(), " ")
		if name == "#" {
			continue
		}
		b, err := hex.DecodeString(text)
		if err != nil || len(b) > mad.Len {
			t.Fatalf("%s: %v, %d bytes", name, err, len(b))
		}
		r := recorded{name: name}
		copy(r.m[:], b)
		all = append(all, r)
	}
	return all
}

func (r *recorded) class() uint8 { return r.m[1] }
func (r *recorded) attribute() mad.AttributeID {
	return mad.AttributeID(binary.BigEndian.Uint16(r.m[16:]))
}

// extent returns how much of a datagram has a meaning. Its sender left what it had before in the
// bytes behind that.
func (r *recorded) extent() int {
	switch {
	case r.class() == mad.ClassLIDRouted:
		return 128
	case r.class() == mad.ClassAdministration && r.m[3]&mad.ResponseBit != 0:
		var h sa.Header
		h.Parse(&r.m)
		return min(sa.DataAt+h.RecordLen(), mad.Len)
	}
	return mad.Len
}

// smpAttributes and records make the types of attributes and records.
var (
	smpAttributes = map[mad.AttributeID]func() smpAttribute{
		smp.AttrNodeInfo:   func() smpAttribute { return new(smp.NodeInfo) },
		smp.AttrSwitchInfo: func() smpAttribute { return new(smp.SwitchInfo) },
		smp.AttrPortInfo:   func() smpAttribute { return new(smp.PortInfo) },
		smp.AttrPKeyTable:  func() smpAttribute { return new(smp.PKeyTable) },
		smp.AttrSMInfo:     func() smpAttribute { return new(smp.SMInfo) },
		smp.AttrNodeDescription: func() smpAttribute {
			return new(smp.NodeDescription)
		},
		smp.AttrLinearForwarding: func() smpAttribute { return new(smp.LinearForwarding) },
		mad.AttrNotice:           func() smpAttribute { return new(managementNotice) },
	}
	records = map[mad.AttributeID]func() sa.Record{
		sa.AttrNodeRecord:     func() sa.Record { return new(sa.NodeRecord) },
		sa.AttrPortInfoRecord: func() sa.Record { return new(sa.PortInfoRecord) },
		sa.AttrPathRecord:     func() sa.Record { return new(sa.PathRecord) },
		sa.AttrMCMemberRecord: func() sa.Record { return new(sa.MCMemberRecord) },
	}
)

type smpAttribute interface {
	Parse(*[smp.DataLen]byte)
	Put(*[smp.DataLen]byte)
}

// A managementNotice is a notice as subnet management packets hold it.
type managementNotice struct{ mad.Notice }

func (n *managementNotice) Parse(b *[smp.DataLen]byte) { n.ParseManagement(b) }
func (n *managementNotice) Put(b *[smp.DataLen]byte)   { n.PutManagement(b) }

// again reads a datagram and writes it with what was read. It reports whether the packages
// know its attribute.
func (r *recorded) again() (out [mad.Len]byte, known bool) {
	switch r.class() {
	case mad.ClassLIDRouted, mad.ClassDirected:
		var p smp.Packet
		p.Parse(&r.m)
		f := smpAttributes[p.Attribute]
		if f == nil {
			return out, false
		}
		v := f()
		v.Parse(&p.Data)
		p.Data = [smp.DataLen]byte{}
		v.Put(&p.Data)
		p.Put(&out)
	case mad.ClassAdministration:
		var h sa.Header
		h.Parse(&r.m)
		f := records[h.MAD.Attribute]
		if f == nil {
			return out, false
		}
		v := f()
		v.Parse(sa.Data(&r.m))
		h.Put(&out)
		v.Put(sa.Data(&out))
	default:
		var h mad.Header
		h.Parse(&r.m)
		h.Put(&out)
		to, from := (*[perf.DataLen]byte)(out[perf.DataAt:]), (*[perf.DataLen]byte)(r.m[perf.DataAt:])
		if h.Attribute == mad.AttrClassPortInfo {
			var c mad.ClassPortInfo
			c.Parse((*[mad.ClassPortInfoLen]byte)(from[:]))
			c.Put((*[mad.ClassPortInfoLen]byte)(to[:]))
			return out, true
		}
		counters := perf.Counters(h.Attribute)
		if len(counters) == 0 || h.Class != mad.ClassPerformance {
			return out, false
		}
		perf.SetPortSelect(to, perf.PortSelect(from))
		perf.SetCounterSelect(h.Attribute, to, perf.CounterSelect(h.Attribute, from))
		for _, c := range counters {
			c.Put(to, c.Get(from))
		}
	}
	return out, true
}

func TestDatagramsOfOpensmRoundTrip(t *testing.T) {
	classes := map[uint8]int{}
	for _, r := range opensmRecordings(t) {
		out, known := r.again()
		if !known {
			if r.class() != mad.ClassCongestion {
				t.Errorf("%s: attribute %#x is not known", r.name, r.attribute())
			}
			continue
		}
		classes[r.class()]++
		for i := range r.extent() {
			if out[i] != r.m[i] {
				t.Errorf("%s: byte %d is written as %#02x, recorded %#02x", r.name, i, out[i], r.m[i])
			}
		}
	}
	for _, c := range []uint8{mad.ClassLIDRouted, mad.ClassDirected, mad.ClassAdministration, mad.ClassPerformance} {
		if classes[c] < 4 {
			t.Errorf("%d datagrams of class %#x", classes[c], c)
		}
	}
}

// tshark dissects the recorded datagrams, and finds the values that these packages find.
func TestDatagramsOfOpensmAsTsharkReadsThem(t *testing.T) {
	testenv.Programs(t, "tshark")
	var mads [][mad.Len]byte
	var qpns []uint32
	all := opensmRecordings(t)
	for _, r := range all {
		qpn := uint32(1)
		if r.class() == mad.ClassLIDRouted || r.class() == mad.ClassDirected {
			qpn = 0
		}
		mads, qpns = append(mads, r.m), append(qpns, qpn)
	}
	file := filepath.Join(t.TempDir(), "opensm.pcap")
	if err := os.WriteFile(file, capture(mads, qpns), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-r", file, "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"}
	for _, f := range []string{"mad.mgmtclass", "mad.method", "mad.status", "mad.transactionid", "mad.attributeid", "mad.attributemodifier"} {
		args = append(args, "-e", "infiniband."+f)
	}
	out, err := exec.Command("tshark", append(args, "-e", "_ws.malformed")...).Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(out), "\n"), "\n")
	if len(lines) != len(all) {
		t.Fatalf("tshark found %d packets of %d", len(lines), len(all))
	}
	for i, r := range all {
		var h mad.Header
		h.Parse(&r.m)
		values := strings.Split(lines[i], "|")
		for k, want := range []any{h.Class, h.Method, h.Status, h.TID, uint16(h.Attribute), h.Modifier} {
			if values[k] != "" && !equal(values[k], want) || values[k] == "" && k != 2 {
				t.Errorf("%s: field %d is %v, tshark found %q", r.name, k, show(want), values[k])
			}
		}
		if values[6] != "" {
			t.Errorf("%s: malformed for tshark", r.name)
		}
	}
}
