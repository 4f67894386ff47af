//go:build linux

package uverbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/wire/uapi"
)

// Rxe's provider posts a receive by a store to the ring alone. In ERR it is flushed
// nevertheless, for a program that polls and for one that sleeps until the event.
func TestReceivesPostedInErrAreFlushed(t *testing.T) {
	t.Run("device in the server", func(t *testing.T) {
		a, _ := newPair(t, newServer(t, "127.14.0.18"))
		flushesInErr(t, a)
	})
	t.Run("device in the program", func(t *testing.T) {
		a, _ := newEnginePair(t, [2]string{"127.14.15.11", "127.14.15.12"})
		flushesInErr(t, a)
	})
}

func flushesInErr(t *testing.T, a *side) {
	q := uapi.ModifyQP{QPHandle: a.handle, AttrMask: uint32(qp.MaskState), QPAttrs: uapi.QPAttrs{State: uint8(qp.Err)}}
	if no, _, _ := a.f.command(uapi.CmdModifyQP, uapi.Bytes(&q), nil, 0); no != 0 {
		t.Fatal(no)
	}
	for range 20 { // more than the ring holds
		a.receive(a.sge(0, 8))
		if e := a.failure(); e.Status != queue.WRFlushErr || e.WRID != 7 {
			t.Fatalf("completed as %+v", e)
		}
	}
	for range 2 {
		if no, _, _ := a.f.command(uapi.CmdReqNotifyCQ, uapi.Bytes(&uapi.ReqNotifyCQ{CQHandle: a.cq}), nil, 0); no != 0 {
			t.Fatal(no)
		}
		a.receive(a.sge(0, 8))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(a.channel), Events: unix.POLLIN}}, int(timeLimit.Milliseconds()))
		if n != 1 {
			t.Fatalf("no event: %v", err)
		}
		var record [8]byte
		if _, err := unix.Read(a.channel, record[:]); err != nil {
			t.Fatal(err)
		}
		a.failure()
	}
}

// Siw's provider does the same in its own layout.
func TestSIWReceivesPostedInErrAreFlushed(t *testing.T) {
	s := newServer(t, "iwarp:127.14.6.28")
	a, _ := newSIWPair(t, s)
	if no := a.modify(qp.Err); no != 0 {
		t.Fatal(no)
	}
	for range 2 * a.caps.Receives {
		a.receive(a.sge(0, 8))
		if e := a.completion(); e.status != 4 || e.op != siwOpReceive || e.id != 7 { // SIW_WC_WR_FLUSH_ERR
			t.Fatalf("completed as %+v", e)
		}
	}
}
