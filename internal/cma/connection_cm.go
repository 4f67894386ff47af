package cma

import (
	"errors"
	"fmt"
	"time"

	"softrdma/internal/cm"
	"softrdma/internal/cmid"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

// A connection is the id's connection to its peer, over RoCE or iWARP.
type connection interface {
	// attr returns the attributes for a transition of the queue pair.
	attr(to qp.State) (qp.Mask, qp.Attr, error)
	// ready completes a connect response.
	ready() error
	// accept answers a connect request.
	accept(p *cmid.ConnParam) error
	// reject refuses a connect request or response.
	reject(why mad.RejectReason, private []byte) error
	// disconnect ends the connection or answers the peer's request to end it.
	disconnect() error
	// establish reports that the queue pair has received a packet from the peer.
	establish() error
	// release releases the connection in any state.
	release()
}

// A managed is a connection through the communication manager of a RoCE device.
type managed struct {
	dev   *device
	c     *cm.Conn
	asked *cmid.ConnParam // parameters of this side's request until it is answered
	why   reason.Detail   // why the peer's request is rejected, for Destroy
}

func (x *managed) do(f func(now time.Duration) error) error {
	return x.dev.do(func(_ *cm.Manager, now time.Duration) error { return f(now) })
}

func (x *managed) attr(to qp.State) (mask qp.Mask, attr qp.Attr, err error) {
	err = x.do(func(time.Duration) (err error) {
		mask, attr, err = x.c.Attr(to)
		return err
	})
	return mask, attr, over(err)
}

func (x *managed) ready() error {
	return over(x.do(func(now time.Duration) error { return x.c.Ready(now, nil) }))
}

// over wraps the error in ErrOver if the peer has ended the connection, for example
// with a rejection after its reply.
func over(err error) error {
	var wrong *cm.StateError
	if errors.As(err, &wrong) && (wrong.Found == cm.Timewait || wrong.Found == cm.Idle) {
		return fmt.Errorf("%w: %w", cmid.ErrOver, err)
	}
	return err
}

// delay makes the communication manager ask the peer for more time if the peer
// sends its message again.
func (x *managed) delay() {
	_ = x.do(func(now time.Duration) error { // fails if the peer has gone away
		return x.c.Delay(now, cm.DefaultMRATimeout|cm.DelayOnDuplicate, nil)
	})
}

func (x *managed) accept(p *cmid.ConnParam) error {
	if err := cmid.CheckPrivate("connect reply", p.PrivateData, mad.REPPrivateLen); err != nil {
		return err
	}
	return x.do(func(now time.Duration) error {
		return x.c.Accept(now, &cm.AcceptParams{
			QPN: p.QPN, ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth,
			RNRRetryCount: min(p.RNRRetryCount, 7), AckDelay: p.AckDelay, FlowControl: p.FlowControl, SRQ: p.SRQ, Private: p.PrivateData,
		})
	})
}

func (x *managed) reject(why mad.RejectReason, private []byte) error {
	if err := cmid.CheckPrivate("rejection", private, mad.REJPrivateLen); err != nil {
		return err
	}
	return x.do(func(now time.Duration) error { return x.c.Reject(now, why, nil, private) })
}

func (x *managed) disconnect() error {
	return x.do(func(now time.Duration) error {
		switch x.c.State() {
		case cm.DreqReceived:
			return x.c.DisconnectReply(now, nil)
		case cm.DreqSent, cm.Timewait:
			return nil // both ends are disconnecting
		}
		return x.c.Disconnect(now, nil)
	})
}

func (x *managed) establish() error {
	return x.do(func(now time.Duration) error { return x.c.Establish(now) })
}

func (x *managed) release() {
	_ = x.do(func(now time.Duration) error { // fails if the device is closed, which needs no cleanup
		if x.why.Reason != reason.None {
			x.c.Decline(now, x.why)
		} else {
			x.c.Destroy(now)
		}
		return nil
	})
}
