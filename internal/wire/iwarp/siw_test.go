package iwarp

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"testing"
)

// A siwMessage is a line of testdata/siw.txt, which tells where it comes from.
type siwMessage struct {
	setting, stream, from, name string
	bytes                       []byte
}

func (m *siwMessage) String() string {
	return fmt.Sprintf("%s %s %s %s of %d bytes", m.setting, m.stream, m.from, m.name, len(m.bytes))
}

// is reports whether it is a message of an opcode.
func (m *siwMessage) is(o Opcode) bool { return m.name == strings.ReplaceAll(o.String(), " ", "_") }

func siwMessages(t *testing.T) (list []siwMessage) {
	t.Helper()
	text, err := os.ReadFile("testdata/siw.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 5 {
			t.Fatalf("a line with %d words: %q", len(f), line)
		}
		b, err := hex.DecodeString(f[4])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, siwMessage{f[0], f[1], f[2], f[3], b})
	}
	return list
}

func TestSiwStartupFrames(t *testing.T) {
	n := 0
	for _, m := range siwMessages(t) {
		if m.name != "Request" && m.name != "Reply" {
			continue
		}
		n++
		var f Frame
		if fault := f.Parse(m.bytes); fault != FrameOK || f.Reply != (m.name == "Reply") || FrameLen+int(f.Private) != len(m.bytes) {
			t.Errorf("%v: %d, %+v", &m, fault, f)
			continue
		}
		again := bytes.Clone(m.bytes)
		clear(again[:FrameLen])
		f.Put(again)
		var e Enhanced
		if f.Flags&FlagEnhanced != 0 {
			e.Parse(m.bytes[FrameLen:])
			clear(again[FrameLen : FrameLen+EnhancedLen])
			e.Put(again[FrameLen:])
		}
		if !bytes.Equal(again, m.bytes) {
			t.Errorf("%v: put as % x, expected % x", &m, again, m.bytes)
		}
		want := Frame{Reply: f.Reply, Private: f.Private, Revision: Revision2, Flags: FlagEnhanced}
		if m.setting != "plain" {
			want.Flags |= FlagCRC
		}
		if m.setting == "revision1" {
			want.Revision, want.Flags = Revision1, FlagCRC
		}
		if f != want || e.PeerToPeer != (m.setting == "peertopeer") || e.PeerToPeer && e.RTR&RTRWrite == 0 {
			t.Errorf("%v: %+v %+v, expected %+v", &m, f, e, want)
		}
	}
	if n < 8 {
		t.Errorf("%d start-up frames", n)
	}
}

func TestSiwFPDUs(t *testing.T) {
	for _, m := range siwMessages(t) {
		if m.name == "Request" || m.name == "Reply" {
			continue
		}
		var s Segment
		if !s.Parse(m.bytes) || !m.is(s.Opcode) || FPDULen(int(s.Length)) != len(m.bytes) || s.DDPVersion != DDPVersion || s.RDMAPVersion != RDMAPVersion {
			t.Errorf("%v: %+v", &m, s)
			continue
		}
		info := s.Opcode.Info()
		if s.Tagged != info.Tagged || s.Queue != info.Queue || !s.Tagged && s.MSN == 0 {
			t.Errorf("%v: %+v", &m, s)
		}
		end := len(m.bytes) - CRCLen
		if sum := UpdateCRC(0, m.bytes[:end]); m.setting != "plain" && sum != CRC(m.bytes[end:]) {
			t.Errorf("%v: CRC %#08x, expected %#08x", &m, CRC(m.bytes[end:]), sum)
		}
		again := bytes.Clone(m.bytes)
		clear(again[:s.HeaderLen()])
		n := s.Put(again)
		if s.Opcode == ReadRequest {
			var r Read
			r.Parse(m.bytes[n:])
			clear(again[n : n+ReadLen])
			r.Put(again[n:])
		}
		if !bytes.Equal(again, m.bytes) {
			t.Errorf("%v: put as % x, expected % x", &m, again, m.bytes)
		}
	}
}

// siw's Terminates have layer and type in each other's place; they are read as
// what is meant.
func TestSiwTerminates(t *testing.T) {
	found := map[Term]int{}
	for _, m := range siwMessages(t) {
		if !m.is(Terminate) {
			continue
		}
		var x Termination
		if !x.Parse(m.bytes[UntaggedLen:]) || termNames[x.Term] == "" {
			t.Errorf("%v: %+v", &m, x)
		}
		found[x.Term]++
		switch x.Term {
		case TermTaggedSTag, TermTaggedBounds:
			if !x.HasDDP || x.Segment.Opcode != Write {
				t.Errorf("%v: %+v, expected a WRITE's header", &m, x)
			}
		case TermProtectionSTag, TermProtectionBounds, TermProtectionAccess:
			if !x.HasRDMAP || x.Segment.Opcode != ReadRequest || x.Read.Size == 0 {
				t.Errorf("%v: %+v, expected a READ request", &m, x)
			}
		}
	}
	for _, want := range []Term{TermTaggedSTag, TermTaggedBounds, TermProtectionSTag, TermProtectionBounds, TermUntaggedBuffer, TermDDPLocal} {
		if found[want] == 0 {
			t.Errorf("no Terminate says %v, of %v", want, found)
		}
	}
}

// The kinds of SEND say in their opcodes what they ask for, and which STag they
// invalidate; those that invalidate nothing have zero there.
func TestSiwSendOpcodesHaveTheirFlags(t *testing.T) {
	found := map[Opcode]int{}
	for _, m := range siwMessages(t) {
		var s Segment
		if m.name == "Request" || m.name == "Reply" || !s.Parse(m.bytes) || s.Tagged || s.Queue != QueueSend {
			continue
		}
		found[s.Opcode]++
		if info := s.Opcode.Info(); info.Invalidate != (s.Invalidate != 0) {
			t.Errorf("%v: %+v", &m, s)
		}
	}
	for _, op := range []Opcode{Send, SendSE, SendInvalidate, SendSEInvalidate} {
		if found[op] == 0 {
			t.Errorf("no %v, of %v", op, found)
		}
	}
}
