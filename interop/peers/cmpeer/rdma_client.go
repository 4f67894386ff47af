package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

func rdmaClient(ctx context.Context, f *flag.FlagSet, args []string) error {
	host := f.String("s", "127.0.0.1", "the server's address")
	port := f.String("p", "7471", "port")
	limit := f.Duration("limit", time.Minute, "how long connecting may take")
	pause := f.Duration("idle", 0, "how long the connection is idle before the client sends")
	silence := f.Duration("peer-timeout", 0, "how long the server may be silent; 0 probes nothing")
	f.Parse(args)
	e, err := (&rdmacm.Dialer{Protocol: protocol}).Resolve(ctx, join(*host, *port))
	if err != nil {
		return err
	}
	defer e.Close()
	pd, err := e.PD()
	if err != nil {
		return err
	}
	cfg := single
	cfg.PeerTimeout = *silence
	qp, err := e.CreateQP(nil, cfg)
	if err != nil {
		return err
	}
	mr, err := receiveOne(pd, qp)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	c, err := e.Connect(limited, rdmacm.ConnParam{})
	if err != nil {
		return errors.Join(err, mr.Deregister())
	}
	fmt.Println("connected")
	err = idle(ctx, c, *pause)
	if err == nil {
		err = exchange(ctx, c, qp)
	}
	return errors.Join(err, c.Disconnect(), mr.Deregister(), c.Close())
}

// exchange sends the client's message and receives the answer.
func exchange(ctx context.Context, c *rdmacm.Conn, qp *verbs.QP) error {
	if err := errors.Join(sendOne(qp), complete(ctx, c.SendCQ(), 1, nil)); err != nil {
		return err
	}
	return complete(ctx, c.RecvCQ(), 1, func(w *verbs.WC) error {
		if w.ByteLen != messageSize {
			return fmt.Errorf("the answer has %d bytes, expected %d", w.ByteLen, messageSize)
		}
		return nil
	})
}

// idle leaves the connection unused for pause, then prints how many keepalive probes were sent
// meanwhile. If the connection ends, idle returns the error of the flushed receive.
func idle(ctx context.Context, c *rdmacm.Conn, pause time.Duration) error {
	if pause == 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	err := complete(bounded, c.RecvCQ(), 1, nil)
	switch {
	case err == nil:
		return errors.New("an answer came before the message")
	case bounded.Err() == nil || ctx.Err() != nil:
		return fmt.Errorf("while idle: %w", err)
	}
	probes := uint64(0)
	for name, n := range c.Device().Counters() {
		if name == "PEER_PROBE" {
			probes = n
		}
	}
	fmt.Printf("idle for %v, %d probes\n", pause, probes)
	return nil
}
