package demo

import (
	"context"

	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/verbs"
)

// send sends the file as messages.
func (d *client) send(ctx context.Context, _ *measure.Message) error {
	return d.stream(ctx, func(at, n int) verbs.SendWR {
		return verbs.SendWR{Op: verbs.OpSend, SGL: d.local(at, n)}
	})
}

// receive waits until all messages have arrived.
func (s *server) receive(ctx context.Context, _ *measure.Message) error {
	return s.side.AwaitCompletions(ctx, s.side.Sent, s.side.Received+int64(messageCount(s.size)))
}

// postReceives posts a receive for each part of the file, so that the messages arrive
// in their place. It does so before the client is told to send, because iWARP does not
// retry a SEND that finds no receive.
func (s *server) postReceives() error {
	for at := 0; at < s.size; at += chunkSize {
		wr := verbs.RecvWR{SGL: []verbs.SGE{s.side.MR.SGE(at, min(chunkSize, s.size-at))}}
		if err := s.side.QPs[0].PostRecv(wr); err != nil {
			return err
		}
	}
	return nil
}
