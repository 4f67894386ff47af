package ucx

import (
	"fmt"
	"sync/atomic"

	"softrdma/msg"
)

// A UcpCallback is a function to call when a request has ended: a UcpSendCallback, UcpTagRecvCallback
// or UcpAmDataRecvCallback. UcpRequest.Close ends it.
type UcpCallback interface{}

// A UcpSendCallback is for sends, and for UcpEp.FlushNonBlocking and UcpEp.CloseNonBlocking.
type UcpSendCallback = func(request *UcpRequest, status UcsStatus)

// A UcpTagRecvCallback is for UcpWorker.RecvTagNonBlocking.
type UcpTagRecvCallback = func(request *UcpRequest, status UcsStatus, tagInfo *UcpTagRecvInfo)

// A UcpAmDataRecvCallback is for UcpAmData.Receive.
type UcpAmDataRecvCallback = func(request *UcpRequest, status UcsStatus, length uint64)

// UcpRequestParams are the parameters of an operation. Nil means defaults.
type UcpRequestParams struct {
	Cb     UcpCallback
	Memory *UcpMemory

	memType UcsMemoryType
}

// SetMemType sets the type of the memory, which must be host memory.
func (p *UcpRequestParams) SetMemType(memType UcsMemoryType) *UcpRequestParams {
	p.memType = memType
	return p
}

// SetMulti says that more operations follow. It is a hint, and has no effect.
func (p *UcpRequestParams) SetMulti() *UcpRequestParams { return p }

// SetMemory names the mapping that the memory is in. It is a hint, and has no effect.
func (p *UcpRequestParams) SetMemory(m *UcpMemory) *UcpRequestParams {
	p.Memory = m
	return p
}

// SetCallback sets the function to call when the request has ended.
func (p *UcpRequestParams) SetCallback(cb UcpCallback) *UcpRequestParams {
	p.Cb = cb
	return p
}

// A UcpRequest is an operation that was started. The program does not change or free its
// memory until it has ended.
type UcpRequest struct {
	request *request

	// Status is the status when the operation was started, or in a callback the final one.
	Status UcsStatus
}

// GetStatus returns UCS_INPROGRESS until the request has ended, and then its status.
func (r *UcpRequest) GetStatus() UcsStatus {
	if r.Status != UCS_INPROGRESS {
		return r.Status
	}
	return UcsStatus(r.request.status.Load())
}

// Close releases the request, even if it has not ended. Its operation then continues, but its
// callback is not called any more.
func (r *UcpRequest) Close() {
	if r.request != nil {
		r.request.closed.Store(true)
	}
}

// A kind is a kind of operation, which determines the type of its callback.
type kind uint8

const (
	send kind = iota
	receiveTag
	receiveData
)

// takes reports whether a callback has the kind's type.
func (k kind) takes(cb UcpCallback) bool {
	ok := cb == nil
	switch f := cb.(type) {
	case UcpSendCallback:
		ok = k == send && f != nil
	case UcpTagRecvCallback:
		ok = k == receiveTag && f != nil
	case UcpAmDataRecvCallback:
		ok = k == receiveData && f != nil
	}
	return ok
}

// A request is the state of a UcpRequest, of which callbacks get a copy.
type request struct {
	w        *UcpWorker
	callback UcpCallback
	status   atomic.Int32
	closed   atomic.Bool
	starting bool // if the operation ends now, it ends in the starting call; guarded by the worker's lock
	info     msg.Info
	err      error
}

// start begins an operation, unless err or the parameters say that it is impossible.
func (w *UcpWorker) start(p *UcpRequestParams, k kind, err error, op func(r *request)) (*UcpRequest, error) {
	r := &request{w: w, starting: true}
	r.status.Store(int32(UCS_INPROGRESS))
	switch {
	case p == nil || err != nil:
	case !p.memType.host():
		err = &UcxError{UCS_ERR_UNSUPPORTED, fmt.Errorf("%v memory", p.memType)}
	case !k.takes(p.Cb):
		err = &UcxError{UCS_ERR_INVALID_PARAM, fmt.Errorf("callback of type %T", p.Cb)}
	default:
		r.callback = p.Cb
	}
	if err != nil {
		r.end(msg.Info{}, err)
	} else {
		op(r)
	}
	w.mu.Lock()
	r.starting = false
	s := UcsStatus(r.status.Load())
	err = failure(r.err)
	w.mu.Unlock()
	if s == UCS_INPROGRESS {
		return &UcpRequest{r, s}, nil
	}
	r.call()
	return &UcpRequest{r, s}, err
}

// end ends a request.
func (r *request) end(i msg.Info, err error) {
	w := r.w
	w.mu.Lock()
	r.info, r.err = i, err
	r.status.Store(int32(statusOf(err)))
	starting := r.starting
	if !starting {
		w.happened = true
	}
	quiet := starting || r.callback == nil && w.progressing > 0
	w.mu.Unlock()
	switch {
	case quiet:
	case r.callback == nil:
		w.worker.Signal()
	default:
		w.post(event{request: r})
	}
}

// call calls the callback of a request that has ended.
func (r *request) call() {
	if r.callback == nil || r.closed.Load() {
		return
	}
	s := UcsStatus(r.status.Load())
	q := &UcpRequest{r, s}
	switch f := r.callback.(type) {
	case UcpSendCallback:
		f(q, s)
	case UcpTagRecvCallback:
		f(q, s, &UcpTagRecvInfo{SenderTag: r.info.Tag, Length: uint64(r.info.Length)})
	case UcpAmDataRecvCallback:
		f(q, s, uint64(r.info.Length))
	}
}
