package iwarp

import (
	"testing"

	"softrdma/internal/queue"
	"softrdma/internal/wire/iwarp"
)

// A request completes when its last byte has left the link, not when the link has taken it.
func TestRequestCompletesWhenTheLinkHoldsNoneOfIt(t *testing.T) {
	r := newRaw(t, defaults(), nil)
	r.drain()
	for i := range 3 {
		r.post(queue.Write, 0, 100, queue.RDMA{})
		if i == 1 {
			r.post(queue.Send, 0, 5000, queue.RDMA{})
		}
	}
	var ends []int // of the messages, in what is sent
	held := 0
	for r.s.Next(r.now, &r.out) {
		held += r.out.Len
		r.s.Sent(r.now, r.out.Len, held)
	}
	const write = 16 + 100 + 4 // FPDU of a WRITE of 100 bytes
	ends = []int{write, 2 * write, held - write, held}
	if got := r.Port.Sent.Take(); len(got) != 0 {
		t.Fatalf("completed %v while the link holds everything", brief(got))
	}
	done := 0
	for left := range held + 1 {
		r.s.Sent(r.now, 0, held-left)
		done += len(r.Port.Sent.Take())
		want := 0
		for want < len(ends) && ends[want] <= left {
			want++
		}
		if done != want {
			t.Fatalf("%d bytes have left: %d requests completed, expected %d", left, done, want)
		}
	}
}

// The answer of a READ shows that all earlier bytes have left the link, which may report so
// only later. That report must not count for later requests.
func TestAnswerCompletesRequestsThatTheLinkStillReports(t *testing.T) {
	r := newRaw(t, defaults(), nil)
	r.drain()
	r.post(queue.Write, 0, 100, queue.RDMA{})
	r.post(queue.Read, 0, 10, queue.RDMA{})
	var sent []byte
	send := func() (held int) {
		for r.s.Next(r.now, &r.out) {
			for _, p := range r.out.Pieces {
				sent = append(sent, p...)
			}
			held += r.out.Len
			r.s.Sent(r.now, r.out.Len, held)
		}
		return held
	}
	send()
	list := fpdus(t, sent, true)
	var m iwarp.Read
	if !m.Parse(list[len(list)-1][iwarp.UntaggedLen:]) {
		t.Fatalf("not a READ: %x", list[len(list)-1])
	}
	r.receive(r.fpdu(iwarp.Segment{Tagged: true, Last: true, Opcode: iwarp.ReadResponse, STag: m.SinkSTag, TO: m.SinkTO}, make([]byte, 10)))
	if got := r.Port.Sent.Take(); len(got) != 2 || got[0].Status != queue.Success || got[1].Status != queue.Success {
		t.Fatalf("completed %v, expected both", brief(got))
	}
	r.post(queue.Write, 0, 100, queue.RDMA{})
	held := send()
	r.s.Sent(r.now, 0, held)
	if got := r.Port.Sent.Take(); len(got) != 0 {
		t.Errorf("completed %v while the link holds it", brief(got))
	}
	r.s.Sent(r.now, 0, 0)
	if got := r.Port.Sent.Take(); len(got) != 1 {
		t.Errorf("completed %v, expected the WRITE", brief(got))
	}
}

// Bytes that the link still holds when the connection breaks were not sent.
func TestRequestHeldByTheLinkIsFlushed(t *testing.T) {
	r := newRaw(t, defaults(), nil)
	r.drain()
	r.post(queue.Write, 0, 100, queue.RDMA{})
	r.post(queue.Write, 0, 100, queue.RDMA{})
	if !r.s.Next(r.now, &r.out) {
		t.Fatal("nothing to send")
	}
	r.s.Sent(r.now, r.out.Len, r.out.Len/2)
	r.s.Closed(r.now, true)
	got := r.Port.Sent.Take()
	if len(got) != 2 || got[0].Status != queue.Success || got[1].Status == queue.Success {
		t.Errorf("completed %v, expected one success", brief(got))
	}
	r.s.Sent(r.now, 0, 0)
	if got := r.Port.Sent.Take(); len(got) != 0 {
		t.Errorf("completed %v after the end", brief(got))
	}
}
