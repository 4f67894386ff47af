package relay

import (
	"bytes"
	"testing"

	"softrdma/internal/fabric/trunk"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
)

// pipe returns a receiver that keeps what it gets.
func pipe() (r *receiver, packets, messages *[][]byte, rings *int) {
	r, packets, messages, rings = new(receiver), new([][]byte), new([][]byte), new(int)
	for i := range r.flows {
		r.flows[i].Init()
	}
	r.packet = func(p []byte) { *packets = append(*packets, bytes.Clone(p)) }
	r.message = func(m []byte, x bool) {
		*messages = append(*messages, m)
		if x {
			*rings++
		}
	}
	return r, packets, messages, rings
}

// packetOf is a packet of a service level in its frame.
func packetOf(sl uint8, n int) []byte {
	b := make([]byte, packetHeader+n)
	b[0], b[2] = packetFrame, sl<<4
	return b
}

func TestMessagesArriveWhole(t *testing.T) {
	r, _, got, rings := pipe()
	var want [][]byte
	var sum uint64
	for i, n := range []int{1, partLen - 1, partLen, partLen + 1, maxMessage} {
		m := bytes.Repeat([]byte{byte(i)}, n)
		want = append(want, m)
		sum += messageCost(n)
		parts(m, i == 3, func(b []byte) {
			if d := r.frame(b); d.Reason != reason.None {
				t.Fatal(d)
			}
		})
	}
	if len(*got) != len(want) || *rings != 1 {
		t.Fatalf("%d messages, %d with rings", len(*got), *rings)
	}
	for i, m := range *got {
		if !bytes.Equal(m, want[i]) {
			t.Errorf("message %d: %d bytes, expected %d", i, len(m), len(want[i]))
		}
	}
	if r.flows[control].Received != sum {
		t.Errorf("counted %d, expected %d", r.flows[control].Received, sum)
	}
}

// The largest message fits the credits of an idle lane: otherwise it would wait without limit.
func TestLongestMessageFitsTheWindow(t *testing.T) {
	if n := messageCost(maxMessage); n > trunk.Window-trunk.GrantEvery {
		t.Errorf("%d of %d", n, trunk.Window)
	}
}

// A sender that uses the credits that it has is never refused, and one that uses more is. A lane
// takes nothing of another one's credits.
func TestLanesHaveCreditsOfTheirOwn(t *testing.T) {
	r, got, _, _ := pipe()
	var far [fabric.Levels]trunk.Flow
	for i := range far {
		far[i].Init()
	}
	n := 0
	for far[3].Room(trunk.Cost(2048)) {
		far[3].Sent += trunk.Cost(2048)
		n++
		if d := r.frame(packetOf(3, 2048)); d.Reason != reason.None {
			t.Fatal(d)
		}
	}
	if n != trunk.Window/2048 || len(*got) != n {
		t.Errorf("%d packets sent and %d received, expected %d", n, len(*got), trunk.Window/2048)
	}
	if d := r.frame(packetOf(4, 2048)); d.Reason != reason.None {
		t.Errorf("another lane: %v", d)
	}
	if _, ok := r.flows[3].Grant(); ok {
		t.Error("granted though nothing was taken")
	}
	r.flows[3].Taken += 40 * trunk.Cost(2048)
	limit, ok := r.flows[3].Grant()
	if !ok || !far[3].Raise(limit) {
		t.Fatal("no grant")
	}
	for i := range 41 {
		if room := far[3].Room(trunk.Cost(2048)); room != (i < 40) {
			t.Fatalf("room for packet %d: %v", i, room)
		}
		far[3].Sent += trunk.Cost(2048)
		if d := r.frame(packetOf(3, 2048)); (d.Reason == reason.FabricOverrun) != (i == 40) {
			t.Errorf("packet %d: %v", i, d)
		}
	}
}

func TestFramesThatMakeNoSenseAreRefused(t *testing.T) {
	part := func(flags byte, n int) []byte { return append([]byte{messageFrame, flags}, make([]byte, n)...) }
	grant := func(lane int, limit uint64) []byte { return appendGrant(nil, lane, limit) }
	for name, b := range map[string][]byte{
		"nothing": {}, "no kind": {0, 1, 2}, "another kind": {9, 1, 2}, "a short packet": packetOf(0, fabric.NoHeaders.Shortest()-1), "a long packet": packetOf(0, fabric.NoHeaders.Longest()+1),
		"an empty part": part(0, 0), "unknown flags": part(4, 1), "a short grant": grant(0, 2*trunk.Window)[:5],
		"a lane that is none": grant(lanes, trunk.Window+1), "less credit": grant(0, trunk.Window-1), "more credit than the window": grant(0, trunk.Window+1),
	} {
		r, packets, messages, _ := pipe()
		if d := r.frame(b); d.Reason == reason.None || len(*packets)+len(*messages) > 0 {
			t.Errorf("%s: %v", name, d)
		}
	}
	r, _, _, _ := pipe()
	for i := range maxMessage/partLen + 2 {
		if d := r.frame(part(moreParts, partLen)); (d.Reason != reason.None) != (i >= maxMessage/partLen) {
			t.Errorf("part %d of a message without end: %v", i, d)
		}
	}
}

// FuzzFrames gives a receiver any frames. What it keeps and passes on stays within its credits.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{3, messageFrame, 0, 1, 9, packetFrame, 0, 0x10, 0, 0, 0, 0, 0, 0})
	f.Add(append([]byte{grantLen}, appendGrant(nil, 2, trunk.Window)...))
	f.Add(append([]byte{0x80, packetFrame}, make([]byte, 0x80*16)...))
	f.Fuzz(func(t *testing.T, script []byte) {
		for _, h := range []fabric.Headers{fabric.NoHeaders, fabric.DatagramHeaders} {
			receiveScript(t, h, script)
		}
	})
}

func receiveScript(t *testing.T, headers fabric.Headers, script []byte) {
	r, packets, messages, _ := pipe()
	r.headers = headers
	for len(script) > 1 {
		n := min(int(script[0])*16, len(script)-1)
		d := r.frame(script[1 : 1+n])
		script = script[1+n:]
		if d.Reason != reason.None {
			break // the session ends
		}
	}
	sum := len(r.part)
	for _, m := range *messages {
		sum += len(m)
	}
	if sum > trunk.Window || len(r.part) > maxMessage {
		t.Errorf("%d bytes of messages", sum)
	}
	var levels [fabric.Levels]int
	for _, p := range *packets {
		if len(p) < headers.Shortest() || len(p) > headers.Longest() {
			t.Errorf("a packet of %d bytes", len(p))
		}
		levels[headers.Level(p)] += len(p)
	}
	for i, n := range levels {
		if n > trunk.Window || r.flows[i].Limit > trunk.Window {
			t.Errorf("service level %d: %d bytes, limit %d", i, n, r.flows[i].Limit)
		}
	}
}
