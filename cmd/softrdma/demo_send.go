package main

import (
	"context"

	"softrdma/verbs"
)

// send sends the file as messages.
func (d *demoClient) send(ctx context.Context, _ *controlMessage) error {
	return d.stream(ctx, func(at, n int) verbs.SendWR {
		return verbs.SendWR{Op: verbs.OpSend, SGL: d.local(at, n)}
	})
}

// receive waits until every message is there.
func (s *demoServer) receive(ctx context.Context, _ *controlMessage) error {
	return s.side.reach(ctx, s.side.sent, s.side.received+int64(demoMessages(s.size)))
}

// postReceives posts a receive for each part of the file, so that the device
// puts the messages where they belong, before the client is told to send: iWARP
// knows no waiting for receives.
func (s *demoServer) postReceives() error {
	for at := 0; at < s.size; at += demoChunk {
		wr := verbs.RecvWR{SGL: []verbs.SGE{s.side.mr.SGE(at, min(demoChunk, s.size-at))}}
		if err := s.side.qps[0].PostRecv(wr); err != nil {
			return err
		}
	}
	return nil
}
