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

// receive keeps receives posted, each for its part of the file, so that the
// device puts the messages where they belong.
func (s *demoServer) receive(ctx context.Context, _ *controlMessage) error {
	done := s.side.received
	last := done + int64((s.size+demoChunk-1)/demoChunk)
	for at := min(s.size, demoReceives*demoChunk); s.side.received < last; {
		if err := s.side.poll(ctx); err != nil {
			return err
		}
		for ; done < s.side.received; done++ {
			n := min(demoChunk, s.size-at)
			if n == 0 {
				continue
			}
			if err := s.postReceive(at, n); err != nil {
				return err
			}
			at += n
		}
	}
	return nil
}

// postReceives posts the first receives, before the client is told to send.
func (s *demoServer) postReceives() error {
	for at := 0; at < s.size && at < demoReceives*demoChunk; at += demoChunk {
		if err := s.postReceive(at, min(demoChunk, s.size-at)); err != nil {
			return err
		}
	}
	return nil
}

func (s *demoServer) postReceive(at, n int) error {
	return s.side.qps[0].PostRecv(verbs.RecvWR{SGL: []verbs.SGE{s.side.mr.SGE(at, n)}})
}
