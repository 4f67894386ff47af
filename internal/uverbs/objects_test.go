//go:build linux

package uverbs

import (
	"os"
	"testing"

	"softrdma/internal/registry"
	"softrdma/internal/wire/uapi"
)

// Objects of programs have the process and the context of their files as owner, and are shown to programs
// of other users only if those are root's.
func TestObjectsHaveTheirProgramsAsOwners(t *testing.T) {
	s, mine, other := twoPrograms(t, "127.14.4.61")
	newSide(mine, 0x1000)
	newSide(other, 0x2000)
	l := view{s: s, uid: uint32(os.Geteuid())}.Objects(0)
	if len(l.Contexts) != 2 || l.Contexts[0].Context == l.Contexts[1].Context {
		t.Fatalf("contexts: %+v", l.Contexts)
	}
	count := make(map[uint32]int) // by context
	for _, x := range l.PDs {
		if x.PID != os.Getpid() {
			t.Errorf("%+v, expected process %d", x, os.Getpid())
		}
		count[x.Context]++
	}
	for _, x := range l.CQs {
		count[x.Context] += 10
	}
	for _, x := range l.QPs {
		count[x.Context] += 100
	}
	for _, x := range l.MRs {
		count[x.Context] += 1000
	}
	for _, c := range l.Contexts {
		if count[c.Context] != 1111 {
			t.Errorf("context %d: %d of 1000×regions + 100×queue pairs + 10×completion queues + domains, expected 1111", c.Context, count[c.Context])
		}
	}
	if got := registry.Of(s.cfg.Devices[0]).List(); len(got.QPs) != 2 || got.QPs[0].PID != os.Getpid() {
		t.Errorf("of the device: %+v", got.QPs)
	}
	const stranger = 12345
	if l := (view{s: s, uid: stranger}).Objects(0); os.Geteuid() != stranger && (len(l.QPs) > 0 || len(l.PDs) > 0 || len(l.Contexts) > 0) {
		t.Errorf("another user sees %+v", l)
	}
	do[uapi.HandleOnly](mine, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	if l := (view{s: s, uid: 0}).Objects(0); len(l.PDs) != 3 {
		t.Errorf("root sees %d domains, expected 3", len(l.PDs))
	}
}
