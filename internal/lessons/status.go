package lessons

import (
	"context"
	"fmt"
	"time"

	"softrdma/verbs"
)

var statusNine = lesson{
	id: "status-9", title: "Why status 9",
	summary: "A request that the peer finds invalid, one that it may not make, what each end knows about it, and how a connection recovers.",
	begin:   beginStatusNine,
}

// A statusLesson is the state of the lesson.
type statusLesson struct {
	*tour
	p *pair
}

func beginStatusNine(t *tour) []step {
	x := &statusLesson{tour: t}
	return []step{x.allowed(), x.invalid(), x.access(), x.flushed(), x.recover()}
}

// write posts a request, waits for its completion, and draws its packets.
func (x *statusLesson) write(ctx context.Context, r *Result, post func() error) (wc verbs.WC, err error) {
	since := time.Now()
	if err = post(); err != nil {
		return wc, err
	}
	if wc, err = x.p.a.wait(ctx); err != nil {
		return wc, err
	}
	return wc, x.p.draw(r, since)
}

func (x *statusLesson) allowed() step {
	return step{
		title: "A request that is allowed",
		text: "Two things must allow a WRITE: the access flags of B's queue pair (qp_access_flags), and those of B's memory region. A must also " +
			"name the region's R_Key and an address inside it. Here all of that is right.",
		explain: []string{"IBV_WC_SUCCESS"},
		run: func(ctx context.Context, r *Result) (err error) {
			if x.p, err = x.newPair(ctx, sockets, 4096, verbs.QPConfig{}); err != nil {
				return err
			}
			if err = x.p.connect(verbs.ConnectConfig{}, verbs.ConnectConfig{}); err != nil {
				return err
			}
			wc, err := x.write(ctx, r, func() error { return x.p.post(verbs.OpWrite, 64) })
			if err != nil {
				return err
			}
			r.figure("status", fmt.Sprintf("%d  %v", wc.Status, wc.Status))
			r.figure("access of B's QP", x.p.b.qp.Query().Access.String())
			r.say("The WRITE is acknowledged. Its completion has status 0.")
			return nil
		},
	}
}

func (x *statusLesson) invalid() step {
	return step{
		title: "Status 9: remote invalid request",
		text: "B connects a new queue pair whose access flags allow READs alone. A posts the same WRITE. B's device looks at its queue pair before " +
			"it looks at any memory, and answers with a NAK: invalid request.",
		explain: []string{"IBV_WC_REM_INV_REQ_ERR", "NAK_INVALID_REQUEST", "QP_ACCESS"},
		run: func(ctx context.Context, r *Result) error {
			if err := x.p.again(verbs.QPConfig{}, verbs.ConnectConfig{}, verbs.ConnectConfig{Access: verbs.RemoteRead}); err != nil {
				return err
			}
			wc, err := x.write(ctx, r, func() error { return x.p.post(verbs.OpWrite, 64) })
			if err != nil {
				return err
			}
			r.failure(&wc)
			r.figure("access of B's QP", x.p.b.qp.Query().Access.String())
			r.figure("state of A", x.p.a.qp.State().String())
			r.say(fmt.Sprintf("Status %d says only that the peer found the request invalid: an operation that its queue pair does not allow, a message "+
				"longer than its receive, or too many READs. The NAK has no more room for the cause.", wc.Status))
			r.say("A softrdma peer also tells its own reason, the line “B says”. With other adapters, look at the peer's qp_access_flags, " +
				"receive lengths and max_dest_rd_atomic. The star in the ladder marks the request at fault.")
			return nil
		},
	}
}

func (x *statusLesson) access() step {
	return step{
		title: "Status 10: remote access error",
		text: "Now B's queue pair allows WRITEs again, but A writes 64 bytes that begin 16 bytes before the end of B's region. This time the queue pair " +
			"allows the request, and the region does not hold all of it.",
		explain: []string{"IBV_WC_REM_ACCESS_ERR", "NAK_REMOTE_ACCESS", "KEY_BOUNDS"},
		run: func(ctx context.Context, r *Result) error {
			if err := x.p.again(verbs.QPConfig{}, verbs.ConnectConfig{}, verbs.ConnectConfig{}); err != nil {
				return err
			}
			beyond := x.p.b.mr.Addr() + uint64(x.p.b.mr.Len()) - 16
			wc, err := x.write(ctx, r, func() error {
				return x.p.a.qp.PostSend(verbs.SendWR{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{x.p.a.mr.SGE(0, 64)}, RemoteAddr: beyond, RKey: x.p.b.mr.RKey()})
			})
			if err != nil {
				return err
			}
			r.failure(&wc)
			r.figure("region ends at", fmt.Sprintf("0x%x", x.p.b.mr.Addr()+uint64(x.p.b.mr.Len())))
			r.figure("WRITE ends at", fmt.Sprintf("0x%x", beyond+64))
			r.say(fmt.Sprintf("Status %d is about memory: a wrong R_Key, an address range outside the region, missing rights of the region, or another "+
				"protection domain. No byte was written.", wc.Status))
			return nil
		},
	}
}

func (x *statusLesson) flushed() step {
	return step{
		title: "What follows: status 5",
		text: "A refused request takes the queue pair to ERR. A posts one more WRITE, which by itself is right. In ERR nothing is sent: the request is " +
			"flushed.",
		explain: []string{"IBV_WC_WR_FLUSH_ERR"},
		run: func(ctx context.Context, r *Result) error {
			wc, err := x.write(ctx, r, func() error { return x.p.post(verbs.OpWrite, 64) })
			if err != nil {
				return err
			}
			r.failure(&wc)
			r.figure("state of A", x.p.a.qp.State().String())
			r.figure("packets sent", fmt.Sprint(packets(r)))
			r.say(fmt.Sprintf("Status %d is never the cause. When a program shows many of them, look for the first completion with another status.", wc.Status))
			return nil
		},
	}
}

func (x *statusLesson) recover() step {
	return step{
		title: "Recover",
		text: "A queue pair leaves ERR only through RESET. Both ends reset, exchange their endpoints again and connect. Then A posts the WRITE that " +
			"was flushed.",
		run: func(ctx context.Context, r *Result) error {
			before := []string{x.p.a.qp.State().String(), x.p.b.qp.State().String()}
			for _, e := range []*end{x.p.a, x.p.b} {
				if err := e.qp.ToReset(); err != nil {
					return err
				}
			}
			if err := x.p.connect(verbs.ConnectConfig{}, verbs.ConnectConfig{}); err != nil {
				return err
			}
			wc, err := x.write(ctx, r, func() error { return x.p.post(verbs.OpWrite, 64) })
			if err != nil {
				return err
			}
			r.figure("state of A", before[0]+" → RESET → "+x.p.a.qp.State().String())
			r.figure("state of B", before[1]+" → RESET → "+x.p.b.qp.State().String())
			r.figure("status", fmt.Sprintf("%d  %v", wc.Status, wc.Status))
			r.say("The connection works again. Libraries do the same, or open a new connection.")
			return nil
		},
	}
}
