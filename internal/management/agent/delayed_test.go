package agent

import (
	"testing"

	"softrdma/internal/management/hardware"
	"softrdma/internal/wire/mad/smp"
)

// opensm takes a port down with the Set that changes its MTU or lanes, and waits for the
// answer.
func TestAnswerLeavesBeforeItsLinkGoesDown(t *testing.T) {
	b := newBoard(1)
	a := New(adapterConfig(1), b)
	info := portInfo(t, a, 1, 0)
	info.State, info.Physical = smp.PortDown, 0
	if _, status := set(t, a, 1, smp.AttrPortInfo, 1, &info); status != 0 {
		t.Fatalf("status %#x", status)
	}
	if len(b.commands) > 0 || a.Deadline() != answerDelay {
		t.Fatalf("commands %v with the answer, deadline %v", b.commands, a.Deadline())
	}
	a.Expire(answerDelay)
	if len(b.commands) != 1 || b.commands[0] != hardware.LinkDown || a.Deadline() != Never {
		t.Errorf("commands %v, deadline %v", b.commands, a.Deadline())
	}
}

func TestOtherLinkGoesDownAtOnce(t *testing.T) {
	b := newBoard(4)
	a := New(switchConfig(4), b)
	info := portInfo(t, a, 1, 2)
	info.State, info.Physical = smp.PortDown, smp.PhysicalDisabled
	if _, status := set(t, a, 1, smp.AttrPortInfo, 2, &info); status != 0 {
		t.Fatalf("status %#x", status)
	}
	if len(b.commands) != 1 || b.commands[0] != hardware.LinkDisable {
		t.Errorf("commands %v", b.commands)
	}
}
