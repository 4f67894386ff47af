package ucx

import (
	"errors"
	"math"
	"sync/atomic"
	"unsafe"

	"softrdma/msg"
)

// A UcpAmRecvCallback handles an active message. The header is valid until it returns. If it
// returns UCS_INPROGRESS, the data stays until UcpAmData.Close or UcpAmData.Receive; otherwise
// only receives that have begun continue. A status below 0 rejects data in the sender's
// memory: the send ends with it.
type UcpAmRecvCallback = func(header unsafe.Pointer, headerSize uint64,
	data *UcpAmData, replyEp *UcpEp) UcsStatus

// An active is an active message for a handler.
type active struct {
	m       *msg.Active
	handler UcpAmRecvCallback
}

func (a *active) call(w *UcpWorker) {
	m := a.m
	d := &UcpAmData{worker: w, m: m, ep: w.of(m.From), data: w.align(m.Data), length: uint64(m.Length), flags: UCP_AM_RECV_ATTR_FLAG_DATA}
	if m.Data == nil && m.Length > 0 {
		d.flags = UCP_AM_RECV_ATTR_FLAG_RNDV
	}
	returned := false
	defer func() {
		if !returned {
			d.Close()
		}
	}()
	s := a.handler(pointer(m.Header), uint64(len(m.Header)), d, d.ep)
	if s < UCS_OK && !d.released.Load() {
		m.Reject(uint32(-s))
	}
	returned = s == UCS_INPROGRESS
}

// align returns data at an address that UcpWorkerParams.SetAmAlignment allows.
func (w *UcpWorker) align(data []byte) []byte {
	n := uintptr(w.params.alignment)
	if n <= 1 || len(data) == 0 || uintptr(pointer(data))%n == 0 {
		return data
	}
	b := make([]byte, uintptr(len(data))+n-1)
	at := -uintptr(pointer(b)) & (n - 1)
	return b[at : int(at)+copy(b[at:], data)]
}

// SetAmRecvHandler sets the function that handles active messages with an ID of at most 65535.
// Nil removes it. Messages without a handler are dropped.
func (w *UcpWorker) SetAmRecvHandler(id uint, flags UcpAmCbFlags, cb UcpAmRecvCallback) error {
	if err := w.ctx.need(featureAM, "EnableAM"); err != nil {
		return err
	}
	if id > math.MaxUint16 {
		return badID(id)
	}
	if cb == nil {
		w.worker.Handle(uint16(id), nil)
		return nil
	}
	w.worker.Handle(uint16(id), func(m *msg.Active) {
		m.Keep() // until Progress has called the handler
		w.post(event{active: &active{m, cb}})
	})
	return nil
}

// UcpAmData is the data of an active message.
type UcpAmData struct {
	worker   *UcpWorker
	ep       *UcpEp
	m        *msg.Active
	data     []byte
	length   uint64
	flags    UcpAmRecvAttrs
	released atomic.Bool
}

// IsDataValid reports whether the data is in this worker's memory. Otherwise Receive reads it
// from the sender's memory.
func (d *UcpAmData) IsDataValid() bool { return d.flags&UCP_AM_RECV_ATTR_FLAG_RNDV == 0 }

// CanPersist reports whether the data can stay beyond the handler. It always can.
func (d *UcpAmData) CanPersist() bool {
	return d.flags&(UCP_AM_RECV_ATTR_FLAG_DATA|UCP_AM_RECV_ATTR_FLAG_RNDV) != 0
}

// DataPointer returns the data, if it is in this worker's memory.
func (d *UcpAmData) DataPointer() (unsafe.Pointer, error) {
	if !d.IsDataValid() {
		return nil, &UcxError{UCS_ERR_NO_MESSAGE, errors.New("the data is in the sender's memory")}
	}
	return pointer(d.data), nil
}

// Length returns the length of the data in bytes.
func (d *UcpAmData) Length() uint64 { return d.length }

// Receive is UcpWorker.RecvAmDataNonBlocking.
func (d *UcpAmData) Receive(recvBuffer unsafe.Pointer, size uint64, params *UcpRequestParams) (*UcpRequest, error) {
	return d.worker.RecvAmDataNonBlocking(d, recvBuffer, size, params)
}

// Close releases data that stayed beyond the handler. Data in the sender's memory that was not
// received is dropped. A second Close does nothing.
func (d *UcpAmData) Close() {
	if !d.released.Swap(true) {
		d.m.Release()
	}
}

// RecvAmDataNonBlocking receives the data of an active message into the program's memory, from the
// sender's if it is there. After that, Close of the data is not necessary. A callback is a
// UcpAmDataRecvCallback.
func (w *UcpWorker) RecvAmDataNonBlocking(dataDesc *UcpAmData, recvBuffer unsafe.Pointer, size uint64,
	params *UcpRequestParams) (*UcpRequest, error) {
	d := dataDesc
	buf, err := memory(recvBuffer, size)
	if err == nil && d.released.Load() {
		err = &UcxError{UCS_ERR_INVALID_PARAM, errors.New("the data was received or released before")}
	}
	return w.start(params, receiveData, err, func(r *request) {
		if d.IsDataValid() {
			d.m.Receive(msg.Buffers{buf}).Then(r.end)
			return
		}
		over := d.ep.receives()
		d.m.Receive(msg.Buffers{buf}).Then(func(i msg.Info, err error) {
			r.end(i, err)
			over()
		})
		d.Close() // the receive continues
	})
}
