package ucx

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
	"unsafe"

	"softrdma/msg"
)

// UCP_EP_CLOSE_FLAG_FORCE is the mode of UcpEp.CloseNonBlocking that does not wait for the peer.
const UCP_EP_CLOSE_FLAG_FORCE = 1

// A UcpEp sends to one worker. Operations may begin before the connection is made; they wait
// for it.
type UcpEp struct {
	w       *UcpWorker
	handler UcpEpErrHandler
	cancel  context.CancelFunc // of the connection that is being made

	mu         sync.Mutex // the worker's lock is taken after it
	connection *msg.Endpoint
	waiting    []operation // for the connection
	status     UcsStatus   // UCS_OK, or the reason of the failure
	closed     bool

	// Guarded by the worker's lock.
	unfinished int      // requests
	receiving  int      // receives of data in the peer's memory
	received   []func() // to call when receiving is 0
}

// An operation begins on a connection. It ends at once if the endpoint has failed.
type operation func(c *msg.Endpoint, failed UcsStatus)

// NewEndpoint makes an endpoint. It does not wait for the connection: if that fails, operations and
// the error handler get the reason.
func (w *UcpWorker) NewEndpoint(epParams *UcpEpParams) (*UcpEp, error) {
	connect, err := w.connector(epParams)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(w.done)
	e := &UcpEp{w: w, handler: epParams.handler, cancel: cancel}
	ok := w.background(func() {
		defer cancel()
		e.connected(connect(ctx))
	})
	if !ok {
		cancel()
		return nil, NewUcxError(UCS_ERR_CANCELED)
	}
	return e, nil
}

// connected begins the operations that wait for the connection.
func (e *UcpEp) connected(c *msg.Endpoint, err error) {
	w := e.w
	if err == nil {
		w.mu.Lock()
		w.endpoints[c] = e
		w.mu.Unlock()
	}
	e.mu.Lock()
	failed := e.status // by CloseNonBlockingForce
	if failed == UCS_OK {
		e.connection = c
		if err == nil {
			err = c.Err() // Config.Failed may have been called before the endpoint was known
		}
		failed = statusOf(err)
	} else if c != nil {
		w.forget(c)
		c.Abort()
	}
	waiting := e.waiting
	e.waiting = nil
	for _, op := range waiting {
		op(c, failed)
	}
	e.mu.Unlock()
	if failed != UCS_OK {
		w.post(event{run: func() { e.fail(failed) }})
	}
}

// begin begins an operation now or when the connection is made.
func (e *UcpEp) begin(op operation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		op(nil, UCS_ERR_NOT_CONNECTED)
	case e.status != UCS_OK:
		op(nil, e.status)
	case e.connection == nil:
		e.waiting = append(e.waiting, op)
	default:
		op(e.connection, UCS_OK)
	}
}

// start begins an operation that ends with a request of package msg.
func (e *UcpEp) start(p *UcpRequestParams, err error, op func(c *msg.Endpoint) *msg.Request) (*UcpRequest, error) {
	return e.w.start(p, send, err, func(r *request) {
		e.begin(func(c *msg.Endpoint, failed UcsStatus) {
			if failed != UCS_OK {
				r.end(msg.Info{}, NewUcxError(failed))
				return
			}
			e.count(1)
			op(c).Then(func(i msg.Info, err error) {
				e.count(-1)
				r.end(i, err)
			})
		})
	})
}

func (e *UcpEp) count(n int) {
	e.w.mu.Lock()
	e.unfinished += n
	e.w.mu.Unlock()
}

// failed implements Config.Failed of the worker.
func (w *UcpWorker) failed(c *msg.Endpoint, err error) { w.post(event{lost: c, err: err}) }

// lost handles the failure of a connection.
func (w *UcpWorker) lost(c *msg.Endpoint, err error) {
	if e := w.forget(c); e != nil {
		e.fail(statusOf(err))
	}
}

// forget removes and returns the endpoint of a connection that ends, or returns nil if the
// program has none.
func (w *UcpWorker) forget(c *msg.Endpoint) *UcpEp {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.endpoints[c]
	delete(w.endpoints, c)
	return e
}

// fail ends the endpoint and tells the program, once. It ends operations that began after the
// connection failed and before this call.
func (e *UcpEp) fail(s UcsStatus) {
	e.mu.Lock()
	first := e.status == UCS_OK && !e.closed
	if first {
		e.status = s
	}
	waiting := e.waiting
	e.waiting = nil
	for _, op := range waiting {
		op(nil, s)
	}
	e.mu.Unlock()
	if first && e.handler != nil {
		e.handler(e, s)
	}
}

// of returns the endpoint of a connection that this or the other worker made.
func (w *UcpWorker) of(c *msg.Endpoint) *UcpEp {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.endpoints[c]
	if e == nil {
		e = &UcpEp{w: w, cancel: func() {}, connection: c}
		w.endpoints[c] = e
	}
	return e
}

// SendTagNonBlocking sends a message with a tag. The request ends when the program may change the
// message again. A callback is a UcpSendCallback.
func (e *UcpEp) SendTagNonBlocking(tag uint64, address unsafe.Pointer, size uint64,
	params *UcpRequestParams) (*UcpRequest, error) {
	data, err := memory(address, size)
	if err == nil {
		err = e.w.ctx.need(featureTag, "EnableTag")
	}
	return e.start(params, err, func(c *msg.Endpoint) *msg.Request { return c.Send(tag, msg.Buffers{data}, nil) })
}

// SendAmNonBlocking sends an active message to the peer's handler for an ID of at most 65535. The
// request ends when the program may change header and data again. A callback is a UcpSendCallback.
func (e *UcpEp) SendAmNonBlocking(id uint, header unsafe.Pointer, headerSize uint64,
	data unsafe.Pointer, dataSize uint64, flags UcpAmSendFlags, params *UcpRequestParams) (*UcpRequest, error) {
	h, err := memory(header, headerSize)
	d, dataErr := memory(data, dataSize)
	if err == nil {
		err = dataErr
	}
	if err == nil {
		err = e.w.ctx.need(featureAM, "EnableAM")
	}
	switch {
	case err != nil:
	case id > math.MaxUint16:
		err = badID(id)
	case flags&UCP_AM_SEND_FLAG_EAGER != 0 && flags&UCP_AM_SEND_FLAG_RNDV != 0:
		err = &UcxError{UCS_ERR_INVALID_PARAM, errors.New("flags for eager and for rendezvous")}
	case flags&UCP_AM_SEND_FLAG_COPY_HEADER != 0:
		h = append([]byte{}, h...)
	}
	return e.start(params, err, func(c *msg.Endpoint) *msg.Request {
		if flags&UCP_AM_SEND_FLAG_RNDV != 0 {
			return c.SendActive(uint16(id), h, msg.Buffers{d}, &msg.SendOptions{Announce: true})
		}
		return c.SendActive(uint16(id), h, msg.Buffers{d}, nil)
	})
}

func badID(id uint) error {
	return &UcxError{UCS_ERR_INVALID_PARAM, fmt.Errorf("active message %d, expected at most %d", id, math.MaxUint16)}
}

// FlushNonBlocking returns a request that ends when everything sent before has arrived at the
// peer's worker, and the data that this worker receives from the peer's memory has arrived. A
// callback is a UcpSendCallback.
func (e *UcpEp) FlushNonBlocking(params *UcpRequestParams) (*UcpRequest, error) {
	return e.w.start(params, send, nil, func(r *request) {
		e.afterReceives(func() {
			e.begin(func(c *msg.Endpoint, failed UcsStatus) {
				if failed != UCS_OK {
					r.end(msg.Info{}, NewUcxError(failed))
					return
				}
				c.Flush().Then(r.end)
			})
		})
	})
}

// receives counts a receive of data in the peer's memory, which ends with the returned function.
func (e *UcpEp) receives() (over func()) {
	w := e.w
	w.mu.Lock()
	defer w.mu.Unlock()
	e.receiving++
	return func() {
		w.mu.Lock()
		var next []func()
		if e.receiving--; e.receiving == 0 {
			next, e.received = e.received, nil
		}
		w.mu.Unlock()
		for _, f := range next {
			w.post(event{run: f})
		}
	}
}

// afterReceives calls f, in Progress if receives have not ended.
func (e *UcpEp) afterReceives(f func()) {
	e.w.mu.Lock()
	wait := e.receiving > 0
	if wait {
		e.received = append(e.received, f)
	}
	e.w.mu.Unlock()
	if !wait {
		f()
	}
}

// CloseNonBlockingForce is CloseNonBlocking(UCP_EP_CLOSE_FLAG_FORCE, params).
func (e *UcpEp) CloseNonBlockingForce(params *UcpRequestParams) (*UcpRequest, error) {
	return e.CloseNonBlocking(UCP_EP_CLOSE_FLAG_FORCE, params)
}

// CloseNonBlockingFlush is CloseNonBlocking(0, params).
func (e *UcpEp) CloseNonBlockingFlush(params *UcpRequestParams) (*UcpRequest, error) {
	return e.CloseNonBlocking(0, params)
}

// CloseNonBlocking closes the endpoint, which must not be used afterwards. Mode 0 waits for
// requests, as FlushNonBlocking does. UCP_EP_CLOSE_FLAG_FORCE ends them with UCS_ERR_CANCELED,
// and earlier sends may not arrive. The request ends when the endpoint is closed. A callback
// is a UcpSendCallback.
//
// If all requests have ended, a forced close still delivers their data, unless that takes
// longer than a second. The close does not wait for that, but UcpWorker.Close does.
func (e *UcpEp) CloseNonBlocking(mode uint32, params *UcpRequestParams) (*UcpRequest, error) {
	return e.w.start(params, send, nil, func(r *request) {
		if mode&UCP_EP_CLOSE_FLAG_FORCE != 0 {
			e.abort(r)
		} else {
			e.afterReceives(func() { e.close(r) })
		}
	})
}

func (e *UcpEp) abort(r *request) {
	e.mu.Lock()
	c, waiting, again := e.connection, e.waiting, e.closed
	e.closed, e.waiting = true, nil
	if e.status == UCS_OK && c == nil {
		e.status = UCS_ERR_CANCELED // for connected
	}
	for _, op := range waiting {
		op(nil, UCS_ERR_CANCELED)
	}
	e.mu.Unlock()
	e.cancel()
	if c != nil && !again {
		e.w.forget(c)
		e.drop(c)
	}
	e.end(r, again)
}

// linger is how long a forced close tries to deliver data.
const linger = time.Second

// drop ends a connection, at once if requests have not ended.
func (e *UcpEp) drop(c *msg.Endpoint) {
	w := e.w
	w.mu.Lock()
	now := e.unfinished+e.receiving > 0 || w.closed
	if !now {
		w.lingering.Add(1)
	}
	w.mu.Unlock()
	if now {
		c.Abort()
		return
	}
	go func() {
		defer w.lingering.Done()
		ctx, cancel := context.WithTimeout(context.Background(), linger)
		defer cancel()
		_ = c.Close(ctx) // the program does not need the error
	}()
}

func (e *UcpEp) close(r *request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	finish := func(c *msg.Endpoint, failed UcsStatus) {
		if failed != UCS_OK {
			e.end(r, false)
			return
		}
		e.w.forget(c)
		c.StartClose().Then(r.end)
	}
	again := e.closed
	e.closed = true
	switch {
	case again || e.status != UCS_OK:
		e.end(r, again)
	case e.connection == nil:
		e.waiting = append(e.waiting, finish)
	default:
		finish(e.connection, UCS_OK)
	}
}

// end ends the request of a close.
func (e *UcpEp) end(r *request, again bool) {
	var err error
	if again {
		err = &UcxError{UCS_ERR_INVALID_PARAM, errors.New("the endpoint was closed before")}
	}
	r.end(msg.Info{}, err)
}
