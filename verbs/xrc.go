package verbs

import (
	"fmt"

	"softrdma/internal/provider"
	"softrdma/internal/reason"
)

// An XRCD is a domain of the extended reliable connection (annex A14). With XRC one connection
// leads to all shared receive queues of a domain, so that every process of a host needs one
// connection to each other host instead of one to each process there.
//
// The receiving side opens a domain, makes shared receive queues in it (SRQConfig.XRCD) and
// target queue pairs (CreateTarget), and tells the sending side the queues' numbers
// (SRQ.Number). The sending side makes queue pairs of type XRCSend, connects them to the
// targets, and names the destination queue in each request (SendWR.RemoteSRQN). A request's
// keys are those of that queue's protection domain, and its receive completes to that queue's
// CQ, with the target's number as WC.QPN. Either side may call Connect, or ToInit, ToRTR and
// ToRTS.
//
// Lost packets are retransmitted as the standard says, from the first missing one on. iWARP devices
// and package rdmacm do not support XRC.
type XRCD struct {
	dev *Device
	drv provider.XRCD
}

// OpenXRCD makes an XRC domain (ibv_open_xrcd without a file). It is refused with
// errors.ErrUnsupported if DeviceAttr.XRC is false.
func (d *Device) OpenXRCD() (*XRCD, error) {
	if !d.attr.XRC {
		return nil, reason.NotSupported("open XRC domain: expected a RoCE or InfiniBand device of this process, found %s", d.attr.Name)
	}
	x, err := d.drv.OpenXRCD()
	if err != nil {
		return nil, fmt.Errorf("open XRC domain: %w", err)
	}
	return &XRCD{d, x}, nil
}

// Device returns the domain's device.
func (x *XRCD) Device() *Device { return x.dev }

// Close closes the domain. It fails with ErrBusy while queues or queue pairs are left in it. A
// second Close does nothing.
func (x *XRCD) Close() error { return x.drv.Close() }

// CreateTarget makes a queue pair of type XRCRecv in state RESET. It receives for the domain's
// shared receive queues what the peer's queue pair of type XRCSend sends. Nothing is posted to
// it. It has no protection domain and no CQ.
func (x *XRCD) CreateTarget() (*QP, error) {
	q := &QP{dev: x.dev, typ: XRCRecv}
	var err error
	if q.drv, err = x.drv.CreateTarget(q); err != nil {
		return nil, fmt.Errorf("create QP: %w", err)
	}
	q.sq = q.drv.SendRing()
	return q, nil
}

// createXRC makes the shared receive queue s in an XRC domain.
func (s *SRQ) createXRC(cfg *SRQConfig, depth, sges int) (err error) {
	d := s.pd.dev
	if cfg.XRCD == nil || cfg.CQ == nil {
		return reason.BadArgument(0, 0, "expected XRCD and CQ, or neither of them, found one")
	}
	if cfg.XRCD.dev != d || cfg.CQ.dev != d {
		return reason.BadArgument(0, 0, "expected an XRC domain and a CQ of its device, found another device's")
	}
	s.drv, s.number, err = cfg.XRCD.drv.CreateSRQ(s.pd.drv, cfg.CQ.drv, depth, sges, cfg.Limit, s)
	return err
}

// Number returns the number by which peers address an XRC shared receive queue, 24 bits, or 0
// for any other queue (ibv_get_srq_num).
func (s *SRQ) Number() uint32 { return s.number }

// checkXRC refuses attributes that a queue pair of type XRCSend does not have.
func (c *QPConfig) checkXRC() error {
	if c.Type == XRCSend && (c.SRQ != nil || c.RecvCQ != nil || c.MaxRecv != 0 || c.MaxRecvSGE != 0) {
		return reason.BadArgument(0, 0, "create QP: %v receives nothing: expected no SRQ, RecvCQ, MaxRecv and MaxRecvSGE", c.Type)
	}
	return nil
}

// encodeXRC writes the number of the destination queue of a request.
func (w *SendWR) encodeXRC(q *QP, i uint32) error {
	if w.Op == OpLocalInv || w.Op == OpBindMW {
		return nil
	}
	if w.RemoteSRQN == 0 || w.RemoteSRQN > maxNumber {
		return reason.BadArgument(maxNumber, uint64(w.RemoteSRQN), "XRC work request: RemoteSRQN: expected 1 to %#x, found %#x", maxNumber, w.RemoteSRQN)
	}
	q.sq.At(i).SRQN = w.RemoteSRQN
	return nil
}

const maxNumber = 1<<24 - 1 // of a queue pair or queue
