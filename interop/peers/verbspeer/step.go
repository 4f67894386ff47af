package main

import (
	"context"
	"fmt"
	"time"

	"softrdma/interop/peers/exerciser"
	"softrdma/verbs"
)

// pollMS is the time limit of a poll whose step sets none.
const pollMS = 10000

// refusedError is the error of a step that the verbs refused. Such a refusal is part of the result
// and does not end the scenario.
type refusedError struct{ error }

func refused(err error) error {
	if err == nil {
		return nil
	}
	return &refusedError{err}
}

func (e *end) step(s *exerciser.Step) error {
	switch s.Do {
	case "barrier":
		return e.barrier()
	case "sleep":
		time.Sleep(time.Duration(s.MS) * time.Millisecond)
		return nil
	case "recv":
		return refused(e.qp.PostRecv(verbs.RecvWR{WRID: s.WR, SGL: e.pieces(s)}))
	case "send":
		return refused(e.send(s))
	case "bind_mw":
		return refused(e.bind(s))
	case "local_inv":
		return refused(e.qp.PostSend(verbs.SendWR{WRID: s.WR, Op: verbs.OpLocalInv, Flags: verbs.Signaled, InvalidateKey: e.mwKey}))
	case "error_qp":
		return refused(e.qp.ToErr())
	case "destroy_qp":
		err := e.qp.Destroy()
		e.qp = nil
		return refused(err)
	case "poll":
		return e.poll(s)
	case "drain":
		return e.drain(time.Duration(s.MS) * time.Millisecond)
	}
	return fmt.Errorf("no step is named %q", s.Do)
}

func (e *end) barrier() error {
	e.barriers++
	if err := e.wire.send(exerciser.Barrier{Barrier: e.barriers, MWRKey: e.mwKey}); err != nil {
		return err
	}
	var other exerciser.Barrier
	if err := e.wire.receive(&other); err != nil {
		return fmt.Errorf("barrier %d: %w", e.barriers, err)
	}
	if other.Barrier != e.barriers {
		return fmt.Errorf("the peer is at barrier %d, this end at %d", other.Barrier, e.barriers)
	}
	e.otherKey = other.MWRKey
	return nil
}

func (e *end) pieces(s *exerciser.Step) []verbs.SGE {
	var sgl []verbs.SGE
	for _, piece := range s.SGE {
		sgl = append(sgl, e.mr.SGE(piece[0], piece[1]))
	}
	return sgl
}

// key returns the R_Key that a step uses.
func (e *end) key(s *exerciser.Step) uint32 {
	switch s.Key {
	case "mw":
		return e.otherKey
	case "bad":
		return e.other.RKey ^ 0x80
	}
	return e.other.RKey
}

var ops = map[string]verbs.Op{
	"SEND": verbs.OpSend, "SEND_WITH_IMM": verbs.OpSendImm, "SEND_WITH_INV": verbs.OpSendInv,
	"RDMA_WRITE": verbs.OpWrite, "RDMA_WRITE_WITH_IMM": verbs.OpWriteImm, "RDMA_READ": verbs.OpRead,
	"ATOMIC_CMP_AND_SWP": verbs.OpCompareSwap, "ATOMIC_FETCH_AND_ADD": verbs.OpFetchAdd,
}

func (e *end) send(s *exerciser.Step) error {
	op, ok := ops[s.Op]
	if !ok {
		return fmt.Errorf("no operation is named %q", s.Op)
	}
	wr := verbs.SendWR{
		WRID: s.WR, Op: op, SGL: e.pieces(s),
		RemoteAddr: e.other.Addr + uint64(s.Remote), RKey: e.key(s), Compare: s.Compare, Swap: s.Swap, Add: s.Add,
	}
	if s.Imm != nil {
		wr.Imm = *s.Imm
	}
	if op == verbs.OpSendInv {
		wr.InvalidateKey = e.key(s)
	}
	flags := s.Flags
	if flags == nil {
		flags = []string{"SIGNALED"}
	}
	for _, flag := range flags {
		switch flag {
		case "SIGNALED":
			wr.Flags |= verbs.Signaled
		case "FENCE":
			wr.Flags |= verbs.Fence
		case "SOLICITED":
			wr.Flags |= verbs.Solicited
		case "INLINE":
			wr.SGL = nil
			for _, piece := range s.SGE {
				wr.Inline = append(wr.Inline, e.buffer[piece[0]:piece[0]+piece[1]]...)
			}
		default:
			return fmt.Errorf("no flag is named %q", flag)
		}
	}
	if e.ah != nil {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = e.ah, e.other.QPN, e.other.QKey
		if s.QKey == "bad" {
			wr.RemoteQKey ^= 1
		}
	}
	return e.qp.PostSend(wr)
}

func (e *end) bind(s *exerciser.Step) (err error) {
	if e.mw == nil {
		if e.mw, err = e.peer.pd.AllocMW(verbs.MWType(s.Type)); err != nil {
			return err
		}
	}
	wr := verbs.SendWR{WRID: s.WR, Op: verbs.OpBindMW, Flags: verbs.Signaled, Bind: &verbs.Bind{MW: e.mw, MR: e.mr, Access: accessOf(s.Access)}}
	if s.Len > 0 {
		wr.Bind.Addr, wr.Bind.Length = e.mr.Addr()+uint64(s.Off), uint64(s.Len)
	}
	if err := e.qp.PostSend(wr); err != nil {
		return err
	}
	if s.Len > 0 {
		e.mwKey = e.mw.RKey()
	}
	return nil
}

// poll waits for completions of one queue.
func (e *end) poll(s *exerciser.Step) error {
	ms := s.MS
	if ms == 0 {
		ms = pollMS
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(ms)*time.Millisecond)
	defer cancel()
	for left := max(s.N, 1); left > 0; {
		n, err := e.take(s.CQ, left)
		if err != nil {
			return err
		}
		if left -= n; n > 0 {
			continue
		}
		if err := e.cqs[s.CQ].Wait(ctx); err != nil {
			if ctx.Err() == nil {
				return err
			}
			e.missing = append(e.missing, s.CQ)
			return nil
		}
	}
	return nil
}

// drain collects the completions of both queues for the duration d.
func (e *end) drain(d time.Duration) error {
	for until := time.Now().Add(d); ; time.Sleep(5 * time.Millisecond) {
		over := time.Now().After(until) // poll once more after the deadline
		for name, cq := range e.cqs {
			if _, err := e.take(name, cq.Depth()); err != nil {
				return err
			}
		}
		if over {
			return nil
		}
	}
}

// take moves up to max completions into the result and returns how many it moved.
func (e *end) take(name string, max int) (int, error) {
	wcs := make([]verbs.WC, max)
	n, err := e.cqs[name].Poll(wcs)
	for i := range wcs[:n] {
		e.found[name] = append(e.found[name], e.describe(name, &wcs[i]))
	}
	return n, err
}
