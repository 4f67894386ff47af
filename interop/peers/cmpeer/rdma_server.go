package main

import (
	"context"
	"errors"
	"flag"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// messageSize is the size of the one message that rdma_client and rdma_server send each other.
const messageSize = 16

// single is the queue pair configuration of both programs: one request in each direction, sent
// inline.
var single = verbs.QPConfig{MaxSend: 1, MaxRecv: 1, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: messageSize, SignalAll: true}

func rdmaServer(ctx context.Context, f *flag.FlagSet, args []string) error {
	host := f.String("s", "0.0.0.0", "address to listen on")
	port := f.String("p", "7471", "port")
	f.Parse(args)
	l, err := rdmacm.Listen(join(*host, *port), rdmacm.ListenConfig{Protocol: protocol})
	if err != nil {
		return err
	}
	defer l.Close()
	listening()
	r, err := l.Request(ctx)
	if err != nil {
		return err
	}
	pd, err := r.PD()
	if err != nil {
		return err
	}
	qp, err := r.CreateQP(nil, single)
	if err != nil {
		return err
	}
	mr, err := receiveOne(pd, qp)
	if err != nil {
		return err
	}
	c, err := r.Accept(ctx, rdmacm.ConnParam{})
	if err != nil {
		return err
	}
	err = complete(ctx, c.RecvCQ(), 1, nil)
	if err == nil {
		err = errors.Join(sendOne(qp), unlessGone(ctx, c, complete(ctx, c.SendCQ(), 1, nil)))
	}
	return errors.Join(err, c.Disconnect(), mr.Deregister(), c.Close())
}

// unlessGone returns nil if the client disconnected after it received the answer. The acknowledge
// may be lost then, and the send is flushed.
func unlessGone(ctx context.Context, c *rdmacm.Conn, err error) error {
	var failed *verbs.CompletionError
	if !errors.As(err, &failed) || failed.Status != verbs.WRFlushErr {
		return err
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
	}
	if errors.Is(c.Err(), rdmacm.ErrDisconnected) {
		return nil
	}
	return errors.Join(err, c.Err())
}

func receiveOne(pd *verbs.PD, qp *verbs.QP) (*verbs.MR, error) {
	mr, err := pd.RegisterMemory(make([]byte, messageSize), verbs.LocalWrite)
	if err != nil {
		return nil, err
	}
	return mr, qp.PostRecv(verbs.RecvWR{SGL: []verbs.SGE{mr.SGE(0, messageSize)}})
}

func sendOne(qp *verbs.QP) error {
	return qp.PostSend(verbs.SendWR{Op: verbs.OpSend, Inline: make([]byte, messageSize)})
}
