package ucx_test

import (
	"testing"
	"unsafe"

	. "github.com/openucx/ucx/bindings/go/src/ucx"
)

// handle sets a handler of active messages.
func handle(t testing.TB, w *UcpWorker, id uint, f UcpAmRecvCallback) {
	t.Helper()
	if err := w.SetAmRecvHandler(id, UCP_AM_FLAG_WHOLE_MSG|UCP_AM_FLAG_PERSISTENT_DATA, f); err != nil {
		t.Fatal(err)
	}
}

func TestActiveMessageIsAnsweredThroughTheReplyEndpoint(t *testing.T) {
	each(t, func(t *testing.T) {
		a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
		e := connect(t, a, b, &UcpEpParams{})
		var answer []byte
		handle(t, a, 2, func(h unsafe.Pointer, n uint64, d *UcpAmData, _ *UcpEp) UcsStatus {
			p, err := d.DataPointer()
			if err != nil {
				t.Error(err)
			}
			answer = append(GoBytes(h, n), GoBytes(p, d.Length())...)
			return UCS_OK
		})
		handle(t, b, 1, func(h unsafe.Pointer, n uint64, d *UcpAmData, reply *UcpEp) UcsStatus {
			p, _ := d.DataPointer()
			_, err := reply.SendAmNonBlocking(2, h, n, p, d.Length(), UCP_AM_SEND_FLAG_EAGER, nil)
			if err != nil {
				t.Error(err)
			}
			return UCS_OK
		})
		h, d := CBytes([]byte("head ")), CBytes([]byte("and data"))
		defer FreeNativeMemory(h)
		defer FreeNativeMemory(d)
		ends(t, started(t)(e.SendAmNonBlocking(1, h, 5, d, 8, UCP_AM_SEND_FLAG_REPLY|UCP_AM_SEND_FLAG_COPY_HEADER, nil)), UCS_OK, a, b)
		until(t, "answer", func() bool { return answer != nil }, a, b)
		same(t, answer, []byte("head and data"))
	})
}

func TestKeptDataStaysUntilItIsClosed(t *testing.T) {
	a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
	e := connect(t, a, b, &UcpEpParams{})
	var kept []*UcpAmData
	handle(t, b, 1, func(_ unsafe.Pointer, _ uint64, d *UcpAmData, _ *UcpEp) UcsStatus {
		if !d.IsDataValid() || !d.CanPersist() {
			t.Errorf("valid %v, persistent %v, expected both", d.IsDataValid(), d.CanPersist())
		}
		kept = append(kept, d)
		return UCS_INPROGRESS
	})
	from, data := native(t, 1000)
	for round := range byte(4) { // more messages than a worker holds
		for i := range byte(60) {
			data[0], data[999] = i, round
			ends(t, started(t)(e.SendAmNonBlocking(1, nil, 0, from, 1000, 0, nil)), UCS_OK, a, b)
		}
		until(t, "messages", func() bool { return len(kept) == 60 }, a, b)
		for i, d := range kept {
			p, err := d.DataPointer()
			if b := GoBytes(p, d.Length()); err != nil || len(b) != 1000 || int(b[0]) != i || b[999] != round {
				t.Fatalf("round %d: message %d: %d bytes %x, %v", round, i, len(b), b[:1], err)
			}
			d.Close()
			d.Close()
		}
		kept = nil
	}
}

func TestLongDataIsReceivedInTheHandlerOrLater(t *testing.T) {
	each(t, func(t *testing.T) {
		a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
		e := connect(t, a, b, &UcpEpParams{})
		for _, later := range []bool{false, true} {
			for _, n := range []int{1, 200_000} { // the flag leaves even one byte in the sender's memory
				from, data := native(t, n)
				pattern(data)
				to, buf := native(t, n)
				var received *UcpRequest
				var waiting *UcpAmData
				lengths := 0
				receive := func(d *UcpAmData) {
					received = started(t)(d.Receive(to, uint64(n), (&UcpRequestParams{}).SetCallback(
						func(_ *UcpRequest, _ UcsStatus, length uint64) { lengths += int(length) })))
				}
				handle(t, b, 1, func(_ unsafe.Pointer, _ uint64, d *UcpAmData, _ *UcpEp) UcsStatus {
					if _, err := d.DataPointer(); d.IsDataValid() || err == nil {
						t.Error("the data is there, expected it in the sender's memory")
					}
					if waiting = d; later {
						return UCS_INPROGRESS
					}
					receive(d)
					return UCS_OK
				})
				sent := started(t)(e.SendAmNonBlocking(1, nil, 0, from, uint64(n), UCP_AM_SEND_FLAG_RNDV, nil))
				until(t, "message", func() bool { return waiting != nil }, a, b)
				if sent.GetStatus() != UCS_INPROGRESS && later {
					t.Error("the send ended before the receive")
				}
				if later {
					receive(waiting)
				}
				ends(t, received, UCS_OK, a, b)
				ends(t, sent, UCS_OK, a, b)
				same(t, buf, data)
				until(t, "callback", func() bool { return lengths > 0 }, b)
				if lengths != n {
					t.Errorf("the callback got %d bytes, expected %d", lengths, n)
				}
				r, err := waiting.Receive(to, uint64(n), nil)
				refused(t, r, err, UCS_ERR_INVALID_PARAM) // a second time
				waiting.Close()
			}
		}
	})
}

func TestFlushWaitsForDataThatTheHandlerReceives(t *testing.T) {
	a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
	e := connect(t, a, b, &UcpEpParams{})
	const n = 1 << 20
	from, data := native(t, n)
	pattern(data)
	to, buf := native(t, n)
	var received, flushed *UcpRequest
	handle(t, b, 1, func(_ unsafe.Pointer, _ uint64, d *UcpAmData, reply *UcpEp) UcsStatus {
		received = started(t)(d.Receive(to, n, nil))
		flushed = started(t)(reply.FlushNonBlocking(nil))
		return UCS_OK
	})
	sent := started(t)(e.SendAmNonBlocking(1, nil, 0, from, n, 0, nil))
	until(t, "flush", func() bool { return flushed != nil && flushed.GetStatus() == UCS_OK }, b, a)
	ends(t, received, UCS_OK) // without more progress
	same(t, buf, data)
	ends(t, sent, UCS_OK, a) // the sender knows, without b
}

func TestUnwantedDataEndsTheSend(t *testing.T) {
	a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
	e := connect(t, a, b, &UcpEpParams{})
	handle(t, b, 1, func(unsafe.Pointer, uint64, *UcpAmData, *UcpEp) UcsStatus { return UCS_OK })
	p, _ := native(t, 100_000)
	ends(t, started(t)(e.SendAmNonBlocking(1, nil, 0, p, 100_000, 0, nil)), UCS_OK, a, b)
	ends(t, started(t)(e.SendAmNonBlocking(9, nil, 0, p, 100_000, 0, nil)), UCS_ERR_INVALID_PARAM, a, b) // no handler
	if err := b.SetAmRecvHandler(1, 0, nil); err != nil {
		t.Fatal(err)
	}
	ends(t, started(t)(e.SendAmNonBlocking(1, nil, 0, p, 100_000, 0, nil)), UCS_ERR_INVALID_PARAM, a, b)
}

// The status of a handler that rejects data is that of the send, except if the data came with the message.
func TestStatusOfTheHandlerEndsTheSend(t *testing.T) {
	each(t, func(t *testing.T) {
		a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
		e := connect(t, a, b, &UcpEpParams{})
		p, _ := native(t, 100_000)
		calls := 0
		for _, s := range []UcsStatus{UCS_OK, UCS_ERR_REJECTED, UCS_ERR_NO_MEMORY, UCS_ERR_LAST} {
			handle(t, b, 1, func(unsafe.Pointer, uint64, *UcpAmData, *UcpEp) UcsStatus {
				calls++
				return s
			})
			ends(t, started(t)(e.SendAmNonBlocking(1, nil, 0, p, 100_000, 0, nil)), s, a, b)
			before := calls
			ends(t, started(t)(e.SendAmNonBlocking(1, nil, 0, p, 10, 0, nil)), UCS_OK, a, b)
			until(t, "call of the handler", func() bool { return calls > before }, b)
		}
		// A status after a receive has no effect.
		to, buf := native(t, 100_000)
		pattern(unsafe.Slice((*byte)(p), 100_000))
		var received *UcpRequest
		handle(t, b, 1, func(_ unsafe.Pointer, _ uint64, d *UcpAmData, _ *UcpEp) UcsStatus {
			received = started(t)(d.Receive(to, 100_000, nil))
			return UCS_ERR_REJECTED
		})
		sent := started(t)(e.SendAmNonBlocking(1, nil, 0, p, 100_000, 0, nil))
		ends(t, sent, UCS_OK, a, b)
		ends(t, received, UCS_OK, b)
		same(t, buf, unsafe.Slice((*byte)(p), 100_000))
	})
}

func TestHeaderOfTheQueriedLengthIsTheLongest(t *testing.T) {
	a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
	attributes, err := a.Query(UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER, UCP_WORKER_ATTR_FIELD_THREAD_MODE)
	if err != nil || attributes.ThreadMode != UCS_THREAD_MODE_MULTI {
		t.Fatal(attributes, err)
	}
	e := connect(t, a, b, &UcpEpParams{})
	got := uint64(0)
	handle(t, b, 1, func(_ unsafe.Pointer, n uint64, d *UcpAmData, _ *UcpEp) UcsStatus {
		if got = n; !d.IsDataValid() || d.Length() != 0 {
			t.Errorf("%d bytes of data, expected none", d.Length())
		}
		return UCS_OK
	})
	n := attributes.MaxAmHeader
	p, _ := native(t, int(n)+1)
	ends(t, started(t)(e.SendAmNonBlocking(1, p, n, nil, 0, UCP_AM_SEND_FLAG_RNDV, nil)), UCS_OK, a, b)
	until(t, "header", func() bool { return got == n }, a, b)
	ends(t, started(t)(e.FlushNonBlocking(nil)), UCS_OK, a, b)
	r, err := e.SendAmNonBlocking(1, p, n+1, nil, 0, 0, nil)
	refused(t, r, err, UCS_ERR_INVALID_PARAM)
}

func TestDataIsAlignedAsTheWorkerWants(t *testing.T) {
	a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, (&UcpWorkerParams{}).SetAmAlignment(512))
	e := connect(t, a, b, &UcpEpParams{})
	from, data := native(t, 700)
	pattern(data)
	for header := range uint64(3) { // moves the data in the frame
		var got []byte
		handle(t, b, 1, func(_ unsafe.Pointer, _ uint64, d *UcpAmData, _ *UcpEp) UcsStatus {
			p, _ := d.DataPointer()
			if uintptr(p)%512 != 0 {
				t.Errorf("data at %p, expected a multiple of 512", p)
			}
			got = GoBytes(p, d.Length())
			return UCS_OK
		})
		started(t)(e.SendAmNonBlocking(1, from, header, from, 700, 0, nil))
		until(t, "data", func() bool { return got != nil }, a, b)
		same(t, got, data)
	}
	_, err := newContext(t, all()).NewWorker((&UcpWorkerParams{}).SetAmAlignment(48))
	refused(t, nil, err, UCS_ERR_INVALID_PARAM)
}
