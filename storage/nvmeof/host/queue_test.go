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
