package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// grhArea is the size of the area at the start of a datagram's receive buffer that holds the GRH.
const grhArea = 40

// A node is one connection of ucmatose, udaddy or mckey: an id with the objects its messages use.
type node struct {
	id    *rdmacm.ID
	count int // messages in each direction
	size  int // bytes of a message

	pd       *verbs.PD
	mr       *verbs.MR
	sent     *verbs.CQ
	received *verbs.CQ
	qp       *verbs.QP

	// UD: the destination of datagrams.
	ah         *verbs.AH
	remoteQPN  uint32
	remoteQKey uint32
}

// open makes the objects and, if receive is set, posts the receives. The buffer holds one slot per
// receive, followed by the data to send.
func (n *node) open(kind verbs.QPType, receive bool) (err error) {
	dev := n.id.Device()
	if n.pd, err = dev.AllocPD(); err != nil {
		return err
	}
	head := 0
	if kind == verbs.UD {
		head = grhArea
		if mtu := dev.QueryPort().ActiveMTU; n.size > mtu {
			return fmt.Errorf("message size %d is larger than the active MTU of %d", n.size, mtu)
		}
	}
	slot := head + n.size
	if n.mr, err = n.pd.RegisterMemory(make([]byte, slot*n.count+n.size+1), verbs.LocalWrite); err != nil {
		return err
	}
	depth := max(1, n.count)
	if n.sent, err = dev.CreateCQ(verbs.CQConfig{Depth: depth}); err != nil {
		return err
	}
	if n.received, err = dev.CreateCQ(verbs.CQConfig{Depth: depth}); err != nil {
		return err
	}
	n.qp, err = n.id.CreateQP(n.pd, verbs.QPConfig{
		Type: kind, SendCQ: n.sent, RecvCQ: n.received, MaxSend: depth, MaxRecv: depth, MaxSendSGE: 1, MaxRecvSGE: 1, SignalAll: true,
	})
	if err != nil || !receive {
		return err
	}
	for i := range n.count {
		if err := n.qp.PostRecv(verbs.RecvWR{WRID: uint64(i), SGL: []verbs.SGE{n.mr.SGE(i*slot, slot)}}); err != nil {
			return err
		}
	}
	return nil
}

// send posts all messages.
func (n *node) send() error {
	buf := n.mr.Bytes()
	out := len(buf) - 1 - n.size
	for i := range buf[out : out+n.size] {
		buf[out+i] = byte(i)
	}
	for range n.count {
		wr := verbs.SendWR{Op: verbs.OpSend, SGL: []verbs.SGE{n.mr.SGE(out, n.size)}}
		if n.ah != nil {
			wr.Op, wr.Imm, wr.AH, wr.RemoteQPN, wr.RemoteQKey = verbs.OpSendImm, n.qp.Number(), n.ah, n.remoteQPN, n.remoteQKey
		}
		if err := n.qp.PostSend(wr); err != nil {
			return err
		}
	}
	return nil
}

// complete waits for count completions and calls each for every one of them.
func complete(ctx context.Context, cq *verbs.CQ, count int, each func(*verbs.WC) error) error {
	var wcs [8]verbs.WC
	for done := 0; done < count; {
		if err := cq.Wait(ctx); err != nil {
			return fmt.Errorf("after %d of %d completions: %w", done, count, errors.Join(err, context.Cause(ctx)))
		}
		k, err := cq.Poll(wcs[:])
		if err != nil {
			return err
		}
		for i := range wcs[:k] {
			if err := wcs[i].Err(); err != nil {
				return err
			}
			if each != nil {
				if err := each(&wcs[i]); err != nil {
					return err
				}
			}
		}
		done += k
	}
	return nil
}

func (n *node) awaitSent(ctx context.Context) error { return complete(ctx, n.sent, n.count, nil) }

// awaitReceived waits for the messages and checks their lengths. A UD node without an address
// handle makes one for the sender of the first datagram.
func (n *node) awaitReceived(ctx context.Context) error {
	head := 0
	if n.qp.Type() == verbs.UD {
		head = grhArea
	}
	return complete(ctx, n.received, n.count, func(w *verbs.WC) error {
		if int(w.ByteLen) != head+n.size {
			return fmt.Errorf("a message of %d bytes, expected %d", w.ByteLen, head+n.size)
		}
		if head == 0 || n.ah != nil {
			return nil
		}
		return n.answerTo(w)
	})
}

// answerTo makes the address handle for the sender of a datagram. The datagram's immediate is the
// sender's queue pair number.
func (n *node) answerTo(w *verbs.WC) (err error) {
	if w.Flags&verbs.WCGRH == 0 || w.Flags&verbs.WCWithImm == 0 {
		return fmt.Errorf("a datagram without GRH or immediate: flags %#x", w.Flags)
	}
	slot := n.mr.Bytes()[int(w.WRID)*(grhArea+n.size):]
	// Annex A17.4.5.1: the area holds the IP header; an IPv4 header is in its last 20 bytes.
	src := netip.AddrFrom16([16]byte(slot[8:24]))
	if slot[0]>>4 != 6 {
		src = netip.AddrFrom4([4]byte(slot[grhArea-8:]))
	}
	if w.Imm != w.SrcQPN {
		return fmt.Errorf("the immediate names queue pair %#x, the datagram is from %#x", w.Imm, w.SrcQPN)
	}
	n.remoteQPN = w.Imm
	n.ah, err = n.pd.CreateAH(verbs.AddressVector{DGID: verbs.GIDFrom(src)})
	return err
}

// reach makes the address handle for the destination that an event names.
func (n *node) reach(ud rdmacm.UDParam) (err error) {
	n.remoteQPN, n.remoteQKey = ud.QPN, ud.QKey
	n.ah, err = n.pd.CreateAH(ud.AV)
	return err
}

// close releases all objects and returns the errors of those that it could not release.
func (n *node) close() error {
	var errs []error
	if n.ah != nil {
		errs = append(errs, n.ah.Destroy())
	}
	if n.qp != nil {
		errs = append(errs, n.id.DestroyQP())
	}
	for _, cq := range []*verbs.CQ{n.sent, n.received} {
		if cq != nil {
			errs = append(errs, cq.Destroy())
		}
	}
	if n.mr != nil {
		errs = append(errs, n.mr.Deregister())
	}
	if n.pd != nil {
		errs = append(errs, n.pd.Dealloc())
	}
	return errors.Join(append(errs, n.id.Destroy())...)
}

func closeNodes(nodes []*node) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.close())
	}
	return errors.Join(errs...)
}

// qkey is the Q_Key of queue pairs that rdma_cm makes (RDMA_UDP_QKEY).
const qkey = 0x01234567
