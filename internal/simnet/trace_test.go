package simnet_test

import (
	"fmt"
	"os"

	"softrdma/internal/qp"
	"softrdma/internal/queue"
	"softrdma/internal/trace"
	"softrdma/internal/wire/ib"
)

// A teller prints the events of a host, for the replay of a seed.
type teller struct{ h *host }

// Trace implements trace.Listener.
func (l teller) Trace(v *trace.Event) {
	at := fmt.Sprintf("%12v host %d", l.h.w.net.Clock(), l.h.index)
	switch v.Kind {
	case trace.Sent, trace.Received:
		var b []byte
		for _, p := range v.Packet.Pieces {
			b = append(b, p...)
		}
		var p ib.Packet
		p.Parse(b)
		what := "sends   "
		if v.Kind == trace.Received {
			what = "receives"
		}
		fmt.Fprintf(os.Stderr, "%s %s %v to %#06x PSN %v ack %v", at, what, p.Opcode, p.DestQPN, p.PSN, p.AckReq)
		if i := p.Opcode.Info(); i != nil && i.Headers&ib.HasAETH != 0 {
			fmt.Fprintf(os.Stderr, " %v MSN %v", p.AETH.Syndrome, p.AETH.MSN)
		}
		if i := p.Opcode.Info(); i != nil && i.Headers&ib.HasRETH != 0 {
			fmt.Fprintf(os.Stderr, " %#x+%d", p.RETH.Addr, p.RETH.Length)
		}
		fmt.Fprintf(os.Stderr, " %d bytes\n", len(p.Payload))
	case trace.Refused:
		fmt.Fprintf(os.Stderr, "%s %#06x refuses: %v: %v\n", at, v.QPN, v.Detail.Reason, v.Detail)
	case trace.State:
		fmt.Fprintf(os.Stderr, "%s %#06x from %v to %v: %v\n", at, v.QPN, qp.State(v.From), qp.State(v.To), v.Detail)
	case trace.Completed:
		fmt.Fprintf(os.Stderr, "%s %#06x completes %v %d: %v %v\n", at, v.QPN, queue.WCOp(v.Opcode), v.WRID, queue.Status(v.Status), v.Detail)
	}
}
