package host

import (
	"testing"

	"softrdma/storage/nvmeof/wire/capsule"
)

// A controller that completes a command which it has not yet received must not make two commands share
// a slot: one of them would never end.
func TestCommandCompletedBeforeItIsSentFreesItsSlotOnce(t *testing.T) {
	q := &queue{entries: 2, all: make([]slot, 1)}
	s, ended := &q.all[0], 0
	c := &command{done: func() { ended++ }}
	signal := q.occupy(s, c)
	if err := q.dispatch(&capsule.Completion{}); err != nil {
		t.Fatal(err)
	}
	q.send(s, c, signal)
	if len(q.free) != 1 || ended != 1 {
		t.Errorf("the slot is %d times free, and the command has ended %d times", len(q.free), ended)
	}
}

// Commands that are sent together over UDP have no data that needs a packet of its own.
func TestCapsulesOfABatchAreOnePacket(t *testing.T) {
	for _, c := range []struct {
		gathers      bool
		packet, want int
	}{{false, 0, 8192}, {true, 0, 8192}, {false, 4032, 8192}, {true, 4032, 4032}, {true, 16000, 8192}} {
		q := &queue{capsule: 8192, gathers: c.gathers, packet: c.packet}
		if n := q.inCapsule(); n != c.want {
			t.Errorf("together %v, packets of %d: %d bytes, expected %d", c.gathers, c.packet, n, c.want)
		}
	}
}
