package verbs

import (
	"errors"
	"fmt"

	"softrdma/internal/psn"
	"softrdma/internal/qp"
)

// InitAttr takes a queue pair from RESET to INIT.
type InitAttr struct {
	Access    Access // rights of the peer: RemoteWrite, RemoteRead, RemoteAtomic, FlushGlobal, FlushPersistent (RC, UC, XRCRecv)
	QKey      uint32 // Q_Key that datagrams to this queue pair must have (UD)
	PKeyIndex uint16 // of the port's P_Key table, which has one entry except on a fabric
}

// RTRAttr takes a queue pair from INIT to RTR, where it receives. UD uses none of the fields.
type RTRAttr struct {
	PathMTU         int           // required: 256, 512, 1024, 2048 or 4096, the same at both ends
	DestQPN         uint32        // required: the peer's queue pair number, 24 bits
	RQPSN           uint32        // PSN of the peer's first packet, 24 bits
	AV              AddressVector // required: the peer's address
	MaxDestRdAtomic uint8         // READs and atomics of the peer in flight, at most MaxReadAtomic; 0 refuses them (RC, XRCRecv)
	MinRNRTimer     uint8         // field of IBTA 9.7.5.2.8, table 45: 0 is 655 ms, 1 is 10 µs, 12 is 640 µs, … (RC, XRCRecv)
}

// RTSAttr takes a queue pair from RTR to RTS, where it sends.
type RTSAttr struct {
	SQPSN       uint32 // PSN of the first packet, 24 bits
	Timeout     uint8  // 0 to 31: 4.096 µs × 2^Timeout; 0 waits without end (RC, XRCSend)
	RetryCnt    uint8  // 0 to 7 retransmissions without progress (RC, XRCSend)
	RNRRetry    uint8  // 0 to 6 retries; 7 retries without end (RC, XRCSend)
	MaxRdAtomic uint8  // READs and atomics in flight, at most the peer's MaxDestRdAtomic; 0 allows none (RC, XRCSend)
}

// ToInit makes the transition RESET → INIT or INIT → INIT (IBTA 10.3.1). In INIT
// receives can be posted.
func (q *QP) ToInit(a InitAttr) error {
	mask := qp.MaskState | qp.MaskPKeyIndex | qp.MaskPort
	if q.Type() == UD {
		mask |= qp.MaskQKey
	} else {
		mask |= qp.MaskAccess
	}
	return q.modify(mask, &qp.Attr{State: qp.Init, PKeyIndex: a.PKeyIndex, Port: 1, Access: qp.Access(a.Access), QKey: a.QKey})
}

// ToRTR makes the transition INIT → RTR (IBTA 10.3.1). The error names each missing attribute.
func (q *QP) ToRTR(a RTRAttr) error {
	mask := qp.MaskState
	attr := qp.Attr{State: qp.RTR}
	if q.Type() != UD {
		mask |= qp.MaskRQPSN
		attr.RQPSN = psn.PSN(a.RQPSN)
		if a.PathMTU != 0 {
			mask |= qp.MaskPathMTU
			attr.PathMTU = a.PathMTU
		}
		if a.DestQPN != 0 {
			mask |= qp.MaskDestQPN
			attr.DestQPN = a.DestQPN
		}
		if a.AV.DGID != (GID{}) || a.AV.DLID != 0 {
			path, err := q.Device().path(&a.AV)
			if err != nil {
				return q.modifyError(qp.RTR, err)
			}
			mask |= qp.MaskAV
			attr.Path = path
		}
	}
	if q.Type() == RC || q.Type() == XRCRecv {
		mask |= qp.MaskMaxDestRdAtomic | qp.MaskMinRNRTimer
		attr.MaxDestRdAtomic, attr.MinRNRTimer = a.MaxDestRdAtomic, a.MinRNRTimer
	}
	return q.modify(mask, &attr)
}

// ToRTS makes the transition RTR → RTS (IBTA 10.3.1).
func (q *QP) ToRTS(a RTSAttr) error {
	mask := qp.MaskState | qp.MaskSQPSN
	switch q.Type() {
	case RC, XRCSend:
		mask |= qp.MaskTimeout | qp.MaskRetryCnt | qp.MaskRNRRetry | qp.MaskMaxRdAtomic
	case XRCRecv:
		mask |= qp.MaskTimeout // IBTA A14 has it, although a target waits for no acknowledge
	}
	err := q.modify(mask, &qp.Attr{
		State: qp.RTS, SQPSN: psn.PSN(a.SQPSN), Timeout: a.Timeout, RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry, MaxRdAtomic: a.MaxRdAtomic,
	})
	if err == nil {
		q.psn.Store(psnChosen | a.SQPSN)
	}
	return err
}

// Resume makes the transitions SQD → RTS and, on UC and UD, SQE → RTS (IBTA 10.3.1.5,
// 10.3.1.6). Requests posted in SQE are flushed, not sent.
func (q *QP) Resume() error { return q.modify(qp.MaskState, &qp.Attr{State: qp.RTS}) }

// ToSQD stops the send queue after the requests that have started (IBTA 10.3.1.5). With
// notify, EventSQDrained reports when they have finished.
func (q *QP) ToSQD(notify bool) error {
	return q.modify(qp.MaskState|qp.MaskEnSQDAsyncNotify, &qp.Attr{State: qp.SQD, EnSQDNotify: notify})
}

// ToErr flushes both queues (IBTA 10.3.1.7): requests posted before or after complete with
// WRFlushErr. It fails in RESET.
func (q *QP) ToErr() error { return q.modify(qp.MaskState, &qp.Attr{State: qp.Err}) }

// ToReset empties both queues without completions and forgets all attributes
// (IBTA 10.3.1.1), and the PSN of Endpoint.
func (q *QP) ToReset() error {
	err := q.modify(qp.MaskState, &qp.Attr{State: qp.Reset})
	if err == nil {
		q.psn.Store(0)
	}
	return err
}

// next names the call that leads to the next state.
var next = [...]string{
	qp.Reset: "call ToInit first", qp.Init: "call ToRTR first", qp.RTR: "call ToRTS first",
	qp.SQE: "call Resume or ToReset first", qp.Err: "call ToReset first",
}

func (q *QP) modify(mask qp.Mask, a *qp.Attr) error {
	if err := q.drv.Modify(mask, a); err != nil {
		return q.modifyError(a.State, err)
	}
	return nil
}

// modifyError names both states, and for an illegal transition the call that leads on from the
// current one.
func (q *QP) modifyError(to qp.State, err error) error {
	from := q.drv.Query().State
	states := fmt.Sprintf(" from %v to %v", from, to)
	if errors.As(err, new(*qp.TransitionError)) {
		states = "" // the error already names them
	}
	if _, _, legal := qp.Allowed(qp.Type(q.typ), from, to); !legal && int(from) < len(next) && next[from] != "" {
		return fmt.Errorf("QP %#06x%s: %w: %s", q.Number(), states, err, next[from])
	}
	return fmt.Errorf("QP %#06x%s: %w", q.Number(), states, err)
}

// QPAttr are the attributes of a queue pair.
type QPAttr struct {
	State           State
	PathMTU         int // bytes
	Access          Access
	QKey            uint32
	DestQPN         uint32
	RQPSN, SQPSN    uint32 // as they were set
	MaxRdAtomic     uint8
	MaxDestRdAtomic uint8
	MinRNRTimer     uint8
	Timeout         uint8
	RetryCnt        uint8
	RNRRetry        uint8
	SQDraining      bool // in SQD: requests are still in flight
	MaxSend         int
	MaxSendSGE      int
	MaxInline       int
}

// Query returns the queue pair's attributes (IBTA 11.2.5.3).
func (q *QP) Query() QPAttr {
	a := q.drv.Query()
	return QPAttr{
		State: State(a.State), PathMTU: a.PathMTU, Access: Access(a.Access), QKey: a.QKey, DestQPN: a.DestQPN,
		RQPSN: uint32(a.RQPSN), SQPSN: uint32(a.SQPSN), MaxRdAtomic: a.MaxRdAtomic, MaxDestRdAtomic: a.MaxDestRdAtomic,
		MinRNRTimer: a.MinRNRTimer, Timeout: a.Timeout, RetryCnt: a.RetryCnt, RNRRetry: a.RNRRetry, SQDraining: a.SQDraining,
		MaxSend: q.sq.Depth(), MaxSendSGE: q.sq.MaxSGE(), MaxInline: q.sq.MaxInline(),
	}
}
