package responder

import (
	"softrdma/internal/machine"
	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// receiving is the receive that the message being received takes.
type receiving struct {
	progress
	recv     machine.Receive
	taken    bool   // recv was taken and not completed
	srqn     uint32 // of an XRC target: the queue of the message begun, or of the last one
	cursor   memory.Cursor
	received uint64 // bytes of the SEND placed
}

// complete completes the receive of a SEND, or of a WRITE of length bytes with immediate data (IBTA
// 11.4.2.1).
func (v *receiving) complete(in *machine.In, info *ib.Info, length uint32) {
	v.taken = false
	m := machine.Received{Op: queue.WCRecv, Length: uint32(v.received), Solicited: in.Solicited}
	if info.Kind == ib.KindWrite {
		m.Op, m.Length = queue.WCRecvRDMAImm, length
	}
	switch {
	case info.Headers&ib.HasImmDt != 0:
		m.Flags, m.ImmInv = queue.WCImm, queue.NetworkOrder(in.Imm)
	case info.Headers&ib.HasIETH != 0:
		m.Flags, m.ImmInv = queue.WCWithInv, in.IETH
	}
	v.c.Done.Received(v.recv.WRID, &m)
}

// failReceive completes the receive that was taken in error.
func (v *receiving) failReceive(s queue.Status, d reason.Detail) {
	v.taken = false
	v.c.Done.ReceiveFailed(v.recv.WRID, s, d)
}
