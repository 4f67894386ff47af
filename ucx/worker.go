package ucx

import (
	"context"
	"fmt"
	"math/bits"
	"sync"
	"unsafe"

	"softrdma/msg"
)

// A UcpWorker sends and receives. The program drives its progress.
type UcpWorker struct {
	ctx    *UcpContext
	dev    *device
	params UcpWorkerParams
	worker *msg.Worker
	done   context.Context // until Close
	stop   context.CancelFunc

	running   sync.WaitGroup // goroutines that wait for connections
	lingering sync.WaitGroup // goroutines that close connections

	mu          sync.Mutex // no other lock is taken while it is held
	queue       []event    // for Progress
	progressing int        // calls of Progress
	calling     bool       // one of them handles events
	happened    bool       // a request has ended since Wait
	signaled    bool       // Signal since Arm
	waiters     int        // calls of Wait that sleep
	closed      bool
	endpoints   map[*msg.Endpoint]*UcpEp
}

// A UcpAddress is the address of a worker, as bytes. Programs send them to each other, and
// make a UcpAddress from the received bytes.
type UcpAddress struct {
	Address *byte
	Length  uint64
}

// UcpWorkerAttributes are what UcpWorker.Query returns. Fields that were not asked for are zero.
type UcpWorkerAttributes struct {
	ThreadMode     UcsThreadMode
	Address        *UcpAddress
	MaxAmHeader    uint64 // bytes
	MaxDebugString uint64 // 0: the package has no debug strings
}

// NewWorker makes a worker.
func (c *UcpContext) NewWorker(workerParams *UcpWorkerParams) (*UcpWorker, error) {
	p := *workerParams
	if !p.hasMode {
		p.mode = UCS_THREAD_MODE_MULTI
	}
	if p.alignment > 1<<20 || bits.OnesCount64(p.alignment) > 1 {
		return nil, &UcxError{UCS_ERR_INVALID_PARAM, fmt.Errorf("alignment to %d bytes, expected a power of two up to 2^20", p.alignment)}
	}
	w := &UcpWorker{ctx: c, params: p, endpoints: map[*msg.Endpoint]*UcpEp{}}
	w.done, w.stop = context.WithCancel(context.Background())
	w.dev = c.dev.retain()
	var err error
	w.worker, err = msg.NewWorker(c.dev.Device, msg.Config{Progress: msg.ProgressCaller, Failed: w.failed})
	if err != nil {
		_ = w.dev.release() // the context uses it, too
		return nil, failure(err)
	}
	if p.hasFD {
		if err := w.addDescriptor(); err != nil {
			w.Close()
			return nil, failure(err)
		}
	}
	return w, nil
}

// Close closes all connections of the worker and ends its requests, without calling their
// callbacks. A second Close does nothing.
func (w *UcpWorker) Close() {
	w.mu.Lock()
	closed := w.closed
	w.closed = true
	w.queue = nil
	w.mu.Unlock()
	if closed {
		return
	}
	w.lingering.Wait()
	w.stop()
	_ = w.worker.Close() // the error cannot be reported
	w.running.Wait()
	_ = w.dev.release()
}

// Close releases the address, which stays valid.
func (a *UcpAddress) Close() {}

func (a *UcpAddress) bytes() []byte {
	if a == nil || a.Address == nil {
		return nil
	}
	return unsafe.Slice(a.Address, a.Length)
}

// Query returns attributes of the worker.
func (w *UcpWorker) Query(attrs ...UcpWorkerAttribute) (*UcpWorkerAttributes, error) {
	a := &UcpWorkerAttributes{}
	for _, attr := range attrs {
		switch attr {
		case UCP_WORKER_ATTR_FIELD_THREAD_MODE:
			a.ThreadMode = w.params.mode
		case UCP_WORKER_ATTR_FIELD_ADDRESS:
			b := w.worker.Address()
			a.Address = &UcpAddress{&b[0], uint64(len(b))}
		case UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER:
			a.MaxAmHeader = msg.MaxHeader
		}
	}
	return a, nil
}

// GetAddress returns the address by which other workers make endpoints to this one.
func (w *UcpWorker) GetAddress() (*UcpAddress, error) {
	a, err := w.Query(UCP_WORKER_ATTR_FIELD_ADDRESS)
	if err != nil {
		return nil, err
	}
	return a.Address, nil
}

// UcpTagRecvInfo describes a message that was received.
type UcpTagRecvInfo struct {
	SenderTag uint64
	Length    uint64
}

// RecvTagNonBlocking receives a message whose tag equals tag in the bits of tagMask. A callback is a
// UcpTagRecvCallback.
func (w *UcpWorker) RecvTagNonBlocking(address unsafe.Pointer, size uint64,
	tag uint64, tagMask uint64, params *UcpRequestParams) (*UcpRequest, error) {
	buf, err := memory(address, size)
	if err == nil {
		err = w.ctx.need(featureTag, "EnableTag")
	}
	return w.start(params, receiveTag, err, func(r *request) {
		w.worker.Receive(msg.Buffers{buf}, tag, tagMask).Then(r.end)
	})
}
