package ucx_test

import (
	"testing"
	"unsafe"

	. "github.com/openucx/ucx/bindings/go/src/ucx"
)

func TestTaggedMessagesArriveWithBothCallbacks(t *testing.T) {
	each(t, func(t *testing.T) {
		a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
		e := connect(t, a, b, &UcpEpParams{})
		for _, n := range []int{0, 5, 8 << 10, 300_000} {
			from, data := native(t, n)
			to, buf := native(t, n+1)
			pattern(data)
			sent, received := 0, 0
			r := started(t)(b.RecvTagNonBlocking(to, uint64(n+1), 0x17, 0xff, (&UcpRequestParams{}).SetCallback(
				func(r *UcpRequest, s UcsStatus, i *UcpTagRecvInfo) {
					if received++; s != UCS_OK || r.GetStatus() != UCS_OK || i.Length != uint64(n) || i.SenderTag != 0xab17 {
						t.Errorf("received %d bytes with tag %#x: %v", i.Length, i.SenderTag, s)
					}
				})))
			s := started(t)(e.SendTagNonBlocking(0xab17, from, uint64(n), (&UcpRequestParams{}).SetMemType(UCS_MEMORY_TYPE_HOST).SetCallback(
				func(_ *UcpRequest, s UcsStatus) {
					if sent++; s != UCS_OK {
						t.Error(s)
					}
				})))
			until(t, "callbacks", func() bool { return sent > 0 && received > 0 }, a, b)
			ends(t, r, UCS_OK)
			ends(t, s, UCS_OK)
			same(t, buf[:n], data)
			for a.Progress()+b.Progress() > 0 {
			}
			if sent != 1 || received != 1 {
				t.Fatalf("%d and %d callbacks, expected one of each", sent, received)
			}
		}
	})
}

func TestMessageOfOwnWorkerArrives(t *testing.T) {
	w := newWorker(t, &UcpWorkerParams{})
	e := connect(t, w, w, &UcpEpParams{})
	to, buf := native(t, 4)
	r := started(t)(w.RecvTagNonBlocking(to, 4, 1, ^uint64(0), nil))
	from := CBytes([]byte("self"))
	defer FreeNativeMemory(from)
	started(t)(e.SendTagNonBlocking(1, from, 4, nil))
	ends(t, r, UCS_OK, w)
	same(t, buf, []byte("self"))
}

func TestOperationsBeforeTheConnectionKeepTheirOrder(t *testing.T) {
	a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
	e := connect(t, a, b, &UcpEpParams{})
	const n = 20 // some begin before, perhaps all
	from, data := native(t, n)
	for i := range data {
		data[i] = byte(i)
		started(t)(e.SendTagNonBlocking(1, unsafe.Pointer(&data[i]), 1, nil))
	}
	_ = from
	flushed := started(t)(e.FlushNonBlocking(nil))
	to, buf := native(t, n)
	for i := range buf {
		r := started(t)(b.RecvTagNonBlocking(unsafe.Add(to, i), 1, 1, 1, nil))
		ends(t, r, UCS_OK, a, b)
	}
	ends(t, flushed, UCS_OK, a, b)
	same(t, buf, data)
}

func TestShortBufferTruncates(t *testing.T) {
	a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
	e := connect(t, a, b, &UcpEpParams{})
	p, _ := native(t, 100)
	started(t)(e.SendTagNonBlocking(3, p, 100, nil))
	to, _ := native(t, 50)
	ends(t, started(t)(b.RecvTagNonBlocking(to, 50, 3, 3, nil)), UCS_ERR_MESSAGE_TRUNCATED, a, b)
}

func TestClosedRequestCallsNothing(t *testing.T) {
	a, b := newWorker(t, &UcpWorkerParams{}), newWorker(t, &UcpWorkerParams{})
	e := connect(t, a, b, &UcpEpParams{})
	to, buf := native(t, 2)
	r := started(t)(b.RecvTagNonBlocking(to, 1, 1, 1, (&UcpRequestParams{}).SetCallback(
		func(*UcpRequest, UcsStatus, *UcpTagRecvInfo) { t.Error("the callback of a closed request was called") })))
	r.Close()
	second := started(t)(b.RecvTagNonBlocking(unsafe.Pointer(&buf[1]), 1, 1, 1, nil))
	from, data := native(t, 2)
	copy(data, "xy")
	started(t)(e.SendTagNonBlocking(1, from, 1, nil))
	started(t)(e.SendTagNonBlocking(1, unsafe.Pointer(&data[1]), 1, nil))
	ends(t, second, UCS_OK, a, b)
	same(t, buf, []byte("xy")) // the operation went on
}

func TestImpossibleOperationsAreRefused(t *testing.T) {
	a := newWorker(t, &UcpWorkerParams{})
	e := connect(t, a, a, &UcpEpParams{})
	p, _ := native(t, 8)
	wrong := (&UcpRequestParams{}).SetCallback(func() {})
	cuda := (&UcpRequestParams{}).SetMemType(UCS_MEMORY_TYPE_CUDA)

	r, err := e.SendTagNonBlocking(1, p, 8, cuda)
	refused(t, r, err, UCS_ERR_UNSUPPORTED)
	r, err = a.RecvTagNonBlocking(p, 8, 1, 1, cuda)
	refused(t, r, err, UCS_ERR_UNSUPPORTED)
	r, err = e.SendTagNonBlocking(1, p, 8, wrong)
	refused(t, r, err, UCS_ERR_INVALID_PARAM)
	r, err = e.SendTagNonBlocking(1, nil, 8, nil)
	refused(t, r, err, UCS_ERR_INVALID_PARAM)
	r, err = e.SendTagNonBlocking(1, p, 1<<63, nil)
	refused(t, r, err, UCS_ERR_INVALID_PARAM)
	r, err = e.SendAmNonBlocking(1<<16, nil, 0, p, 8, 0, nil)
	refused(t, r, err, UCS_ERR_INVALID_PARAM)
	r, err = e.SendAmNonBlocking(1, nil, 0, p, 8, UCP_AM_SEND_FLAG_EAGER|UCP_AM_SEND_FLAG_RNDV, nil)
	refused(t, r, err, UCS_ERR_INVALID_PARAM)
	refused(t, nil, a.SetAmRecvHandler(1<<16, 0, nil), UCS_ERR_INVALID_PARAM)
	_, err = a.NewEndpoint(&UcpEpParams{})
	refused(t, nil, err, UCS_ERR_INVALID_PARAM)
}

func TestOperationsNeedTheirFeature(t *testing.T) {
	w, err := newContext(t, &UcpParams{}).NewWorker(&UcpWorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	e := connect(t, w, w, &UcpEpParams{})
	r, err := e.SendTagNonBlocking(1, nil, 0, nil)
	refused(t, r, err, UCS_ERR_INVALID_PARAM)
	r, err = w.RecvTagNonBlocking(nil, 0, 1, 1, nil)
	refused(t, r, err, UCS_ERR_INVALID_PARAM)
	r, err = e.SendAmNonBlocking(1, nil, 0, nil, 0, 0, nil)
	refused(t, r, err, UCS_ERR_INVALID_PARAM)
	refused(t, nil, w.SetAmRecvHandler(1, 0, nil), UCS_ERR_INVALID_PARAM)
	refused(t, nil, w.Wait(), UCS_ERR_INVALID_PARAM)
	refused(t, nil, w.Signal(), UCS_ERR_INVALID_PARAM)
	if s := w.Arm(); s != UCS_ERR_INVALID_PARAM {
		t.Error(s)
	}
	_, err = w.GetEfd()
	refused(t, nil, err, UCS_ERR_INVALID_PARAM)
}
