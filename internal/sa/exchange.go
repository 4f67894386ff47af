package sa

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/adapter/gsi"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/sa"
)

// A question is a request of one record.
type question struct {
	method    uint8
	attribute mad.AttributeID
	mask      uint64
	record    sa.Record
}

// An exchange is a question on its way.
type exchange struct {
	c       *Client
	header  sa.Header
	record  sa.Record
	lid     uint16 // of the administrator, when it was asked last
	answers chan [mad.Len]byte
}

// ask sends a question until an answer comes.
func (c *Client) ask(ctx context.Context, q *question, r sa.Record) error {
	x, err := c.begin(q)
	if err != nil {
		return err
	}
	defer x.forget()
	if err := x.send(); err != nil {
		return err
	}
	return x.await(ctx, r)
}

// begin prepares a question. forget ends it.
func (c *Client) begin(q *question) (*exchange, error) {
	x := &exchange{c: c, record: q.record, answers: make(chan [mad.Len]byte, 1)}
	x.header = sa.Header{
		MAD: mad.Header{
			BaseVersion: mad.BaseVersion, Class: mad.ClassAdministration, ClassVersion: sa.ClassVersion, Method: q.method,
			TID: transaction(), Attribute: q.attribute,
		},
		ComponentMask: q.mask,
	}
	err := c.dev.GSI(func(g *gsi.GSI, _ time.Duration) {
		g.Await(x.header.MAD.TID, func(d *gsi.Datagram) {
			select {
			case x.answers <- d.MAD:
			default: // a duplicate
			}
		})
	})
	return x, err
}

func (x *exchange) forget() {
	err := x.c.dev.GSI(func(g *gsi.GSI, _ time.Duration) { g.Forget(x.header.MAD.TID) })
	if err != nil && !errors.Is(err, adapter.ErrClosed) {
		panic(err) // begin has succeeded on the same device
	}
}

// send asks once. It does not wait.
func (x *exchange) send() error {
	i := x.c.port.Info()
	if x.lid = i.PortInfo.MasterSMLID; x.lid == 0 || !i.Up {
		return reason.Detail{Reason: reason.SANone, Expected: 1}.Err()
	}
	d := &gsi.Datagram{Path: qp.Path{Dst: qp.LIDEndpoint(x.lid), ServiceLevel: i.PortInfo.MasterSMSL}, QPN: gsi.QPN}
	x.header.Put(&d.MAD)
	x.record.Put(sa.Data(&d.MAD))
	return x.c.dev.SendMAD(d)
}

// await waits for the answer to what send has asked, and asks again if none comes.
func (x *exchange) await(ctx context.Context, r sa.Record) error {
	for n := 1; ; n++ {
		select {
		case m := <-x.answers:
			var h sa.Header
			h.Parse(&m)
			if h.MAD.Status != 0 {
				return reason.Detail{Reason: reason.SAStatus, Expected: 0, Found: uint64(h.MAD.Status)}.Err()
			}
			r.Parse(sa.Data(&m))
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(x.c.wait):
		}
		if n == attempts {
			return reason.Detail{Reason: reason.SATimeout, Expected: uint64((attempts * x.c.wait).Milliseconds()), Found: uint64(x.lid)}.Err()
		}
		if err := x.send(); err != nil {
			return err
		}
	}
}

// transaction draws a transaction ID that no other request has.
func transaction() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand, Go 1.24)
	return binary.BigEndian.Uint64(b[:])
}
