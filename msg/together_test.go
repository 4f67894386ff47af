package msg_test

import (
	"testing"

	"softrdma/msg"
)

// Messages that one answer of the peer releases, and that are too long for one frame, wait for each other,
// so that they are posted with one doorbell, and arrive.
func TestMessagesThatCreditsReleaseArePostedTogether(t *testing.T) {
	withoutRings(t)
	const credits, messages, length = 8, 32, 2000
	each(t, msg.Config{Progress: msg.ProgressCaller, Unexpected: credits}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		var receives, sends []*msg.Request
		for range messages {
			receives = append(receives, b.Receive(msg.Buffers{make([]byte, length)}, 1, msg.All))
			sends = append(sends, e.Send(1, msg.Buffers{make([]byte, length)}, nil))
		}
		together := 0
		ctx := within(t)
		for ended := false; !ended; {
			b.Progress()
			together = max(together, a.Take(e))
			var err error
			if _, ended, err = receives[messages-1].Poll(); err != nil || ctx.Err() != nil {
				t.Fatal(err, ctx.Err())
			}
		}
		for _, s := range sends {
			if _, ended, err := s.Poll(); !ended || err != nil {
				t.Errorf("a send has ended: %v, with error %v", ended, err)
			}
		}
		if together < credits/2 {
			t.Errorf("at most %d messages waited for each other, expected %d", together, credits/2)
		}
	})
}

// A flush says that the frames before it have arrived, and gives their slots back. So it is posted
// behind those that wait to be posted together.
func TestFlushIsPostedBehindFramesThatWait(t *testing.T) {
	withoutRings(t)
	each(t, msg.Config{}, func(t *testing.T, a, b *msg.Worker) {
		e := connect(t, a, b)
		r := b.Receive(msg.Buffers{make([]byte, 8)}, 1, msg.All)
		send, flush, behind := e.SendAndFlush(1, make([]byte, 8))
		if behind > 0 {
			t.Errorf("%d frames are posted behind the flush", behind)
		}
		for _, x := range []*msg.Request{send, flush, r} {
			if _, err := x.Wait(within(t)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
