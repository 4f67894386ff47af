package session

import (
	"bytes"
	"errors"
	"flag"
	"math/rand/v2"
	"testing"
)

var seeds = flag.Uint64("seeds", 2000, "seeds of each model")

func TestHeadersAreParsedAsTheyWereWritten(t *testing.T) {
	for _, h := range []Header{
		{Kind: Request, Flags: OneWay, Slot: 7, Sequence: 1 << 31, Consumed: 3, Number: 9, Length: 4, Timeout: 1e9},
		{Kind: Answer, Flags: Far, Slot: 1, Sequence: 2, Length: 1 << 40, Address: 1 << 63, Key: 0xffffffff},
	} {
		b := make([]byte, HeaderLen)
		h.Put(b)
		if h.Flags&Far == 0 {
			b = append(b, make([]byte, h.Length)...)
		}
		got, body, err := Parse(b)
		if err != nil || got != h || len(body) != len(b)-HeaderLen {
			t.Errorf("%+v: %+v, %d bytes, %v", h, got, len(body), err)
		}
		for n := range b {
			if _, _, err := Parse(b[:n]); !errors.Is(err, ErrProtocol) {
				t.Errorf("%d bytes of %d: %v, expected %v", n, len(b), err, ErrProtocol)
			}
		}
	}
}

func TestHellosAreParsedAsTheyWereWritten(t *testing.T) {
	h := Hello{ID: ID{1, 2, 3}, Frame: 4096, Receives: 96, Slots: 64, Body: 1 << 20}
	got, err := ParseRequest(append(h.Request(), 0, 0))
	if err != nil || got != h || len(h.Request()) > 56 {
		t.Errorf("request: %+v, %v", got, err)
	}
	h.Resume = true
	if got, err := ParseRequest(h.Request()); err != nil || got != h {
		t.Errorf("request to resume: %+v, %v", got, err)
	}
	h.Resume, h.Bytes = false, 1<<33
	if got, err := ParseReply(h.Reply()); err != nil || got != h {
		t.Errorf("reply: %+v, %v", got, err)
	}
	for n := range h.Reply() {
		if _, err := ParseReply(h.Reply()[:n]); err == nil {
			t.Errorf("%d bytes of a reply were taken", n)
		}
	}
	for _, r := range []Refusal{{Cause: CauseDraining}, {Cause: CauseMoved, Address: "192.0.2.1:7471"}} {
		if got, err := ParseRefusal(append(r.Bytes(), 0, 0, 0)); err != nil || got != r {
			t.Errorf("refusal: %+v, %v", got, err)
		}
	}
}

func TestOtherVersionsAndProgramsAreNamed(t *testing.T) {
	h := Hello{Frame: 4096, Receives: 96, Slots: 64}
	other := h.Request()
	other[len(magic)]++
	if _, err := ParseRequest(other); !errors.Is(err, ErrVersion) {
		t.Errorf("another version: %v", err)
	}
	if _, err := ParseRequest(make([]byte, 56)); !errors.Is(err, ErrPeer) {
		t.Errorf("another program: %v", err)
	}
	if _, err := ParseRequest(h.Reply()); !errors.Is(err, ErrProtocol) {
		t.Errorf("a reply as request: %v", err)
	}
	h.Slots = 0
	if _, err := ParseRequest(h.Request()); !errors.Is(err, ErrProtocol) {
		t.Errorf("no slots: %v", err)
	}
}

// A client's calls travel as copies that may be lost, repeated and delayed. In all cases each
// call is new exactly once.
func TestEachCallIsNewOnceForAnySeed(t *testing.T) {
	for seed := range *seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		const slots = 3
		table := NewTable(slots)
		type call struct {
			sequence uint32
			begun    bool // at the server
			answered bool
		}
		var client [slots]call
		var late []Place // copies in flight
		carried := map[Place]int{}
		first := uint32(0)
		if seed%2 == 0 { // around the overflow
			first = ^uint32(3)
			for i := range slots {
				table.slots[i] = state{sequence: first, used: true}
			}
		}
		for i := range client {
			client[i] = call{sequence: first, answered: true}
		}
		for range 60 {
			i := r.IntN(slots)
			c := &client[i]
			switch r.IntN(4) {
			case 0: // the next call, once the last one is answered
				if c.answered {
					*c = call{sequence: c.sequence + 1}
					late = append(late, Place{uint16(i), c.sequence})
				}
			case 1: // a repetition, when a connection broke
				if !c.answered {
					late = append(late, Place{uint16(i), c.sequence})
				}
			case 2: // a copy arrives, in any order
				if len(late) == 0 {
					continue
				}
				k := r.IntN(len(late))
				p := late[k]
				late = append(late[:k], late[k+1:]...)
				v, err := table.Request(p.Slot, p.Sequence)
				c := &client[p.Slot]
				switch {
				case err != nil:
					t.Fatalf("seed %d: %v", seed, err)
				case v == New:
					carried[p]++
					c.begun = true
				case v == Answered && p.Sequence == c.sequence:
					c.answered = true
				case p.Sequence != c.sequence && v == Running:
					t.Fatalf("seed %d: an old call is said to be running", seed)
				}
			case 3: // the handler returns, and its answer may be lost
				if c.begun && !c.answered && table.slots[i].running {
					table.Finish(uint16(i))
					c.answered = r.IntN(2) == 0
				}
			}
		}
		for p, n := range carried {
			if n != 1 {
				t.Fatalf("seed %d: %v was new %d times", seed, p, n)
			}
		}
	}
}

func TestRequestsOutOfTurnAreRefused(t *testing.T) {
	table := NewTable(2)
	if v, err := table.Request(0, 0); v != Stale || err != nil || table.Current(0, 0) {
		t.Errorf("a call with the number 0: %v, %v", v, err)
	}
	for _, p := range []Place{{2, 1}, {0, 2}, {1, 1 << 30}} {
		if _, err := table.Request(p.Slot, p.Sequence); !errors.Is(err, ErrProtocol) {
			t.Errorf("%v: %v, expected %v", p, err, ErrProtocol)
		}
	}
	if v, err := table.Request(0, 1); v != New || err != nil {
		t.Fatal(v, err)
	}
	if _, err := table.Request(0, 2); !errors.Is(err, ErrProtocol) {
		t.Errorf("a new call in a slot without an answer: %v, expected %v", err, ErrProtocol)
	}
}

// Two ends send as often as they may, consume in any order, and hold receives for a while or until the end.
// Neither exceeds the other's receives, and neither waits forever.
func TestFlowsNeitherExceedReceivesNorStopForAnySeed(t *testing.T) {
	type frame = []byte
	for seed := range *seeds {
		r := rand.New(rand.NewPCG(seed, 2))
		sizes := [2]int{MinReceives + r.IntN(8), MinReceives + r.IntN(8)}
		ends := [2]*Flow{NewFlow(sizes[0], sizes[1]), NewFlow(sizes[1], sizes[0])}
		var wire [2][]frame // to each end
		var held [2]int
		sent := 0
		for range 800 {
			i := r.IntN(2)
			f, peer := ends[i], 1-i
			switch r.IntN(4) {
			case 0:
				if f.Ready() {
					b := make(frame, HeaderLen)
					f.Stamp(b)
					wire[peer] = append(wire[peer], b)
					sent++
				}
			case 1:
				if len(wire[i]) > 0 {
					if err := f.Learn(wire[i][0]); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					wire[i] = wire[i][1:]
					if held[i] < sizes[i]-2*reserved && r.IntN(3) == 0 {
						held[i]++
					} else {
						f.Consume()
					}
				}
			case 2:
				if f.Owes(held[i]) {
					b := make(frame, HeaderLen)
					f.Grant(b)
					wire[peer] = append(wire[peer], b)
				}
			case 3:
				if held[i] > 0 && seed%2 == 0 {
					held[i]--
					f.Consume()
				}
			}
			for k := range wire {
				if n := len(wire[k]) + held[k]; n > sizes[k] {
					t.Fatalf("seed %d: %d frames held or on their way to %d receives", seed, n, sizes[k])
				}
			}
		}
		if sent < 40 {
			t.Fatalf("seed %d: %d frames", seed, sent)
		}
	}
}

func TestFlowRefusesToLearnOfFramesThatWereNotSent(t *testing.T) {
	f := NewFlow(8, 8)
	f.Stamp(nil)
	b := make([]byte, HeaderLen)
	(&Header{Kind: Credit, Consumed: 2}).Put(b)
	if err := f.Learn(b); !errors.Is(err, ErrProtocol) {
		t.Errorf("%v, expected %v", err, ErrProtocol)
	}
}

func FuzzParse(f *testing.F) {
	b := make([]byte, HeaderLen+4)
	(&Header{Kind: Request, Length: 4}).Put(b)
	f.Add(b)
	(&Header{Kind: Taken, Length: PlaceLen}).Put(b)
	f.Add(append(b[:HeaderLen:HeaderLen], Place{3, 4}.Append(nil)...))
	(&Header{Kind: Request, Length: 2, Headers: 5}).Put(b)
	f.Add(AppendHeader(append(b[:HeaderLen:HeaderLen], "xy"...), "a", "b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, body, err := Parse(b)
		if err != nil {
			return
		}
		out := make([]byte, HeaderLen)
		h.Put(out)
		out = append(out, body...)
		for name, value := range Headers(h.Extra(body)) {
			out = AppendHeader(out, string(name), string(value))
		}
		if !bytes.Equal(out, b) {
			t.Errorf("%x was written as %x", b, out)
		}
		for list := body; h.Kind == Taken && len(list) > 0; list = list[PlaceLen:] {
			ParsePlace(list)
		}
	})
}

func FuzzHello(f *testing.F) {
	h := Hello{ID: ID{1}, Frame: 4096, Receives: 96, Slots: 64}
	f.Add(h.Request())
	f.Add(h.Reply())
	f.Add((&Refusal{Cause: CauseMoved, Address: "a:1"}).Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := ParseRequest(b); err == nil && !bytes.HasPrefix(b, h.Request()) {
			t.Errorf("%x was written as %x", b, h.Request())
		}
		if h, err := ParseReply(b); err == nil && !bytes.HasPrefix(b, h.Reply()) {
			t.Errorf("%x was written as %x", b, h.Reply())
		}
		if r, err := ParseRefusal(b); err == nil && !bytes.HasPrefix(b, r.Bytes()) {
			t.Errorf("%x was written as %x", b, r.Bytes())
		}
	})
}
