package cm

import (
	"slices"

	"softrdma/internal/qp"
)

// asked are the states in which the active side does not know its peer yet, answered those in
// which both ends know each other.
var (
	asked    = []State{ReqSent, MRAReqReceived}
	answered = []State{ReqReceived, MRAReqSent, RepReceived, MRARepSent, RepSent, MRARepReceived, Established}
)

// Attr returns what the queue pair's transition to INIT, RTR or RTS needs (IBTA 12.9.5, 12.9.6
// and 10.3.1), with the mask of these attributes. The values are those of Linux's
// communication manager for RoCE v2. The user may change them before the transition, for
// example reduce the depths to those of its device. On the passive side the transitions come
// before Accept, which then tells the peer the values that were used. The own PSN is drawn
// with the request. The error is a *StateError, or a *qp.TransitionError for other states.
func (c *Conn) Attr(to qp.State) (qp.Mask, qp.Attr, error) {
	a := qp.Attr{State: to}
	switch to {
	case qp.Init:
		if err := c.need("attributes of INIT", append(slices.Clone(asked), answered...)...); err != nil {
			return 0, a, err
		}
		return c.initAttr(&a), a, nil
	case qp.RTR:
		if err := c.need("attributes of RTR", answered...); err != nil {
			return 0, a, err
		}
		return c.rtrAttr(&a), a, nil
	case qp.RTS:
		if err := c.need("attributes of RTS", answered...); err != nil {
			return 0, a, err
		}
		return c.rtsAttr(&a), a, nil
	}
	return 0, a, &qp.TransitionError{Type: c.kind, To: to}
}

func (c *Conn) initAttr(a *qp.Attr) qp.Mask {
	a.Port, a.PKeyIndex = 1, c.reach.PKeyIndex
	a.Access = qp.RemoteWrite
	if c.resources > 0 {
		a.Access |= qp.RemoteRead | qp.RemoteAtomic | qp.FlushGlobal
	}
	return qp.MaskState | qp.MaskAccess | qp.MaskPKeyIndex | qp.MaskPort
}

func (c *Conn) rtrAttr(a *qp.Attr) qp.Mask {
	a.Path, a.PathMTU = c.path, c.mtu.Bytes()
	a.DestQPN, a.RQPSN = c.remoteQPN, c.recvPSN
	mask := qp.MaskState | qp.MaskAV | qp.MaskPathMTU | qp.MaskDestQPN | qp.MaskRQPSN
	if c.kind == qp.RC {
		a.MaxDestRdAtomic = c.resources
		mask |= qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer
	}
	return mask
}

func (c *Conn) rtsAttr(a *qp.Attr) qp.Mask {
	a.SQPSN = c.sendPSN
	mask := qp.MaskState | qp.MaskSQPSN
	if c.kind == qp.RC {
		a.RetryCnt, a.RNRRetry, a.MaxRdAtomic, a.Timeout = c.retryCount, c.rnrRetry, c.depth, c.ack
		mask |= qp.MaskRetryCnt | qp.MaskRNRRetry | qp.MaskMaxRdAtomic | qp.MaskTimeout
	}
	return mask
}
