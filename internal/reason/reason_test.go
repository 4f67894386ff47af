package reason

import (
	"regexp"
	"strings"
	"testing"
)

func TestReasonEveryRowIsComplete(t *testing.T) {
	name := regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`)
	seen := map[string]Reason{}
	for r := range All() {
		if !name.MatchString(r.String()) {
			t.Errorf("reason %d is named %q, expected capitals and underscores", r, r)
		}
		if other, ok := seen[r.String()]; ok {
			t.Errorf("reasons %d and %d are both named %v", other, r, r)
		}
		seen[r.String()] = r
		if got, known := Named(r.String()); !known || got != r || !r.Known() {
			t.Errorf("%v is found as %d, %v, expected %d", r, got, known, r)
		}
	}
	if len(seen) < 300 {
		t.Errorf("found %d reasons", len(seen))
	}
	if r, known := Named("NO_SUCH_REASON"); known || r != None || None.Known() || Count.Known() {
		t.Errorf("an unknown name is found as %d, %v", r, known)
	}
}

// Processes of several versions exchange numbers: a room and the reasons in it keep theirs.
func TestReasonNumbersAreFixed(t *testing.T) {
	for r, n := range map[Reason]uint32{PacketShort: 64, SequenceAhead: 128, RetryExceeded: 192, CQOverflow: 256, SocketVersion: 320, MADLength: 384, CMService: 448,
		MPAKey: 512, ClientUser: 576, DeviceOpen: 640, HostOff: 704, FabricLength: 768, FabricRemoteFull: 812} {
		if uint32(r) != n {
			t.Errorf("%v has number %d, expected %d", r, r, n)
		}
	}
}

func TestReasonRoomTakesNoOtherNumbers(t *testing.T) {
	for what, f := range map[string]func(){
		"a room that is taken": func() { register(packetsRoom, nil, nil) },
		"room 0":               func() { register(0, nil, nil) },
		"a wrong number":       func() { register(Count/roomSize-1, []row{{PacketShort, "X", ""}}, nil) },
		"too many reasons":     func() { register(Count/roomSize-1, make([]row, roomSize+1), nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is accepted", what)
				}
			}()
			f()
		}()
	}
}

// fmt prints %! for a verb that does not fit its argument, for a missing argument
// and for an extra one.
func TestReasonFormatsMatchTheirNumbers(t *testing.T) {
	for r := range All() {
		for _, n := range []uint64{0, 1, 1 << 31, 1<<64 - 1} {
			s := Detail{r, n, n}.String()
			if s == "" || strings.Contains(s, "%!") {
				t.Errorf("%v with %d prints as %q", r, n, s)
			}
		}
		a, b := Detail{r, 1, 2}.String(), Detail{r, 3, 2}.String()
		c := Detail{r, 1, 4}.String()
		if a == b || a == c {
			t.Errorf("%v does not print both numbers: %q", r, a)
		}
		if s := r.Sentence(); strings.Contains(s, "%") || !strings.Contains(s, "…") {
			t.Errorf("%v has the sentence %q", r, s)
		}
	}
}

func TestReasonWidths(t *testing.T) {
	for _, c := range []struct {
		d    Detail
		want string
	}{
		{Detail{PacketICRC, 0x1234, 0xdeadbeef}, "wrong ICRC: expected 0x00001234, found 0xdeadbeef"},
		{Detail{SequenceAhead, 0x12, 0xffffff}, "PSN sequence error: expected 0x000012, found 0xffffff"},
		{Detail{PacketPKey, 0xffff, 1}, "wrong P_Key: expected 0xffff, found 0x0001"},
		{Detail{OpcodeSequence, 0, 2}, "opcode out of sequence: after 0 came 2"}, // this test registers no names
		{Detail{Flushed, uint64(None), 0}, flushedInOrder},
		{Detail{Flushed, uint64(KeyBounds), 10}, "flushed: the queue pair went to the error state (first error KEY_BOUNDS, status 10)"},
	} {
		if got := c.d.String(); got != c.want {
			t.Errorf("found %q, expected %q", got, c.want)
		}
	}
}

func TestReasonUnknownPrintsItsNumber(t *testing.T) {
	for _, got := range []string{Count.String(), Count.Sentence(), Detail{Reason: Count}.String(), Reason(1).String(), (packetsRoom*roomSize + roomSize - 1).Sentence()} {
		if !strings.HasPrefix(got, "reason ") {
			t.Errorf("found %q, expected the number", got)
		}
	}
	if got := (Detail{}).String(); got != "NONE" {
		t.Errorf("no reason prints as %q", got)
	}
}
