package lessons

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"softrdma/verbs"
)

var queuePairs = lesson{
	id: "queue-pair", title: "What a queue pair is",
	summary: "The two queues with which a program sends and receives, the states they pass through, and what one-sided means.",
	begin:   beginQueuePairs,
}

const greeting = "hello, queue pair"

// A queuePairLesson is the state of the lesson.
type queuePairLesson struct {
	*tour
	p *pair
}

func beginQueuePairs(t *tour) []step {
	x := &queuePairLesson{tour: t}
	return []step{x.make(), x.connect(), x.send(), x.sendEarly(), x.write()}
}

func (x *queuePairLesson) make() step {
	return step{
		title: "Make two queue pairs",
		text: "A queue pair (QP) is a send queue and a receive queue. A program posts work requests to them, and the device carries them out " +
			"without another call. Results come to a completion queue (CQ). Everything belongs to a protection domain (PD): a QP can use only " +
			"memory that is registered in its own PD.\n\nThis step opens two devices on loopback addresses, A and B. On each it makes a PD, a CQ, a " +
			"QP for the reliable connected service (RC), and registers 4096 bytes as a memory region (MR).",
		explain: []string{"LOCAL_KEY"},
		run: func(ctx context.Context, r *Result) (err error) {
			if x.p, err = x.newPair(ctx, sockets, 4096, verbs.QPConfig{}); err != nil {
				return err
			}
			for _, e := range []*end{x.p.a, x.p.b} {
				r.figure("device "+e.name, e.dev.Addr().String())
				r.figure("QP of "+e.name, fmt.Sprintf("%s, state %v", qpn(e.qp), e.qp.State()))
				r.figure("MR of "+e.name, fmt.Sprintf("address 0x%x, R_Key 0x%x", e.mr.Addr(), e.mr.RKey()))
			}
			r.say("Each queue pair has a number (QPN), unique on its device. Both are in RESET: they can hold nothing yet, and packets to them are dropped.")
			r.say("The R_Key is what a peer must name to use the region. The view Objects lists all of these.")
			return x.p.draw(r, time.Now())
		},
	}
}

func (x *queuePairLesson) connect() step {
	return step{
		title: "Connect them",
		text: "A QP passes through RESET, INIT, RTR (ready to receive) and RTS (ready to send). For RTR it must know its peer: address, QPN, and " +
			"the packet sequence number (PSN) at which the peer starts. The two programs tell each other out of band, with a socket or through the " +
			"connection manager. Then each end is connected on its own; no packet is needed for that.",
		run: func(_ context.Context, r *Result) error {
			here, there := x.p.a.qp.Endpoint(), x.p.b.qp.Endpoint()
			since := time.Now()
			if err := x.p.connect(verbs.ConnectConfig{}, verbs.ConnectConfig{MinRNRTimer: 20}); err != nil {
				return err
			}
			r.figure("A tells B", fmt.Sprintf("QPN 0x%06x, PSN 0x%06x", here.QPN, here.PSN))
			r.figure("B tells A", fmt.Sprintf("QPN 0x%06x, PSN 0x%06x", there.QPN, there.PSN))
			r.figure("state of A, B", fmt.Sprintf("%v, %v", x.p.a.qp.State(), x.p.b.qp.State()))
			r.figure("path MTU", fmt.Sprintf("%d bytes", x.p.a.qp.Query().PathMTU))
			if err := x.p.draw(r, since); err != nil {
				return err
			}
			r.figure("packets", fmt.Sprint(packets(r)))
			r.say("Both queue pairs are in RTS. Longer messages than the path MTU go in several packets.")
			return nil
		},
	}
}

func (x *queuePairLesson) send() step {
	return step{
		title: "Send a message",
		text: "SEND is two-sided: the receiver must have posted a receive, which says where the message may go. B posts a receive of 4096 bytes. " +
			"Then A posts a SEND. Each end gets one completion.",
		explain: []string{"IBV_WC_SUCCESS"},
		run: func(ctx context.Context, r *Result) error {
			if err := x.p.b.qp.PostRecv(verbs.RecvWR{WRID: 7, SGL: []verbs.SGE{x.p.b.mr.SGE(0, 4096)}}); err != nil {
				return err
			}
			since := time.Now()
			got, sent, err := x.p.send(ctx)
			if err != nil {
				return err
			}
			if err := x.p.draw(r, since); err != nil {
				return err
			}
			r.figure("completion at A", fmt.Sprintf("work request %d: %v", sent.WRID, sent.Status))
			r.figure("completion at B", fmt.Sprintf("work request %d: %v, %d bytes", got.WRID, got.Status, got.ByteLen))
			r.figure("B's memory", fmt.Sprintf("%q", x.p.b.mr.Bytes()[:got.ByteLen]))
			r.say("The ladder shows the packets that both devices recorded: the message, and the acknowledge of B's device. A's completion means that " +
				"B's device has the message. Whether B's program has looked at it, A does not know.")
			return nil
		},
	}
}

func (x *queuePairLesson) sendEarly() step {
	return step{
		title: "Send without a receive",
		text: "Now A sends while B has no receive posted. B's device answers with a negative acknowledge (NAK), RNR: receiver not ready, and says " +
			"how long A shall wait. B posts a receive 25 ms later.",
		explain: []string{"NAK_NOT_READY", "IBV_WC_RNR_RETRY_EXC_ERR"},
		run: func(ctx context.Context, r *Result) error {
			since := time.Now()
			posted := make(chan error, 1)
			go func() {
				time.Sleep(25 * time.Millisecond)
				posted <- x.p.b.qp.PostRecv(verbs.RecvWR{WRID: 8, SGL: []verbs.SGE{x.p.b.mr.SGE(0, 4096)}})
			}()
			got, sent, err := x.p.send(ctx)
			if err = errors.Join(err, <-posted); err != nil {
				return err
			}
			took := time.Since(since)
			if err := x.p.draw(r, since); err != nil {
				return err
			}
			r.figure("RNR NAKs", fmt.Sprint(labels(r, "RNR")))
			r.figure("SEND took", duration(took))
			r.figure("completions", fmt.Sprintf("A %v, B %v with %d bytes", sent.Status, got.Status, got.ByteLen))
			r.say("A's device sent the message again after each wait, until B had a receive. Nothing failed, because rnr_retry is 7 here: without " +
				"limit. With 0 to 6 the SEND would complete with IBV_WC_RNR_RETRY_EXC_ERR after so many retries.")
			r.say("In a real program this shows as high latency. The remedy is to post receives early, and enough of them.")
			return nil
		},
	}
}

func (x *queuePairLesson) write() step {
	return step{
		title: "WRITE, which needs no receive",
		text: "RDMA WRITE is one-sided: A names an address and an R_Key of B's memory, and B's device puts the bytes there. B's program is not " +
			"involved, and B gets no completion.",
		explain: []string{"KEY_UNKNOWN", "KEY_ACCESS"},
		run: func(ctx context.Context, r *Result) error {
			clear(x.p.b.mr.Bytes())
			copy(x.p.a.mr.Bytes(), greeting)
			since := time.Now()
			if err := x.p.post(verbs.OpWrite, len(greeting)); err != nil {
				return err
			}
			wc, err := x.p.a.good(ctx)
			if err != nil {
				return err
			}
			if err := x.p.draw(r, since); err != nil {
				return err
			}
			none := make([]verbs.WC, 1)
			n, err := x.p.b.cq.Poll(none)
			if err != nil {
				return err
			}
			r.figure("completion at A", wc.Status.String())
			r.figure("completions at B", fmt.Sprint(n))
			r.figure("B's memory", fmt.Sprintf("%q", strings.TrimRight(string(x.p.b.mr.Bytes()[:64]), "\x00")))
			r.say("The first packet names B's address (VA) and R_Key: compare them with the figures of the first step. READ works the same way in " +
				"the other direction.")
			return nil
		},
	}
}

// send sends the greeting from A to B, and waits for both completions.
func (p *pair) send(ctx context.Context) (got, sent verbs.WC, err error) {
	copy(p.a.mr.Bytes(), greeting)
	if err = p.post(verbs.OpSend, len(greeting)); err != nil {
		return got, sent, err
	}
	if sent, err = p.a.good(ctx); err != nil {
		return got, sent, err
	}
	got, err = p.b.good(ctx)
	return got, sent, err
}
