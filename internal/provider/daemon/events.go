//go:build linux

package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"softrdma/internal/cmid"
	"softrdma/internal/object"
	"softrdma/internal/provider"
	"softrdma/internal/qp"
	"softrdma/internal/reason"
	"softrdma/internal/uverbs/uapi"
	"softrdma/internal/wire/mad"
)

// events is an event channel of connection management. It is a file of the daemon,
// which keeps the events until this process takes them.
type events struct {
	d     *Device
	wake  func()
	file  uint64
	pipe  *os.File // readable while there are events, at end of file when the daemon ends
	fd    int      // the pipe's descriptor
	named bool     // the daemon numbers reasons as this process does

	pending atomic.Bool   // there may be events
	look    chan struct{} // holds a token if the pipe must be checked again
	done    chan struct{} // closed by Close
	ended   chan struct{} // closed when watch has ended
	closing sync.Once

	turn sync.Mutex // held while taking events
	over bool

	mu   sync.Mutex
	ids  map[*id]struct{}
	lost bool  // the device has ended
	left []*id // ids that must be told of the device's end
}

// NewEventChannel implements provider.ConnectionManager.
func (d *Device) NewEventChannel(wake func()) (provider.EventChannel, error) {
	file, fd, err := d.openFile("rdma_cm")
	if err != nil {
		return nil, d.lost(err)
	}
	h := &events{
		d: d, wake: wake, file: file, fd: fd, ids: make(map[*id]struct{}),
		look: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{}),
	}
	if h.pipe, err = pollable(fd, "connections"); err != nil {
		return nil, err
	}
	go h.watch()
	if err := h.begin(); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// begin tells the daemon that this is the file of a Go program.
func (h *events) begin() error {
	a, err := h.ask(uapi.CMOwn, uapi.Bytes(&uapi.OwnCM{}), uapi.Size[uapi.OwnCMResp]())
	if errors.Is(err, syscall.ENOSYS) {
		return fmt.Errorf("the daemon on %s is of a version without connections of Go programs: %w", h.d.socket, err)
	}
	if err != nil {
		return err
	}
	r, _ := uapi.Parse[uapi.OwnCMResp](a)
	h.named = r.Reasons == uapi.Reasons()
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.d.closed || h.d.leaving.Load() {
		return object.ErrClosed
	}
	h.d.events[h] = struct{}{}
	return nil
}

// channels returns the event channels of the device.
func (d *Device) channels() (list []*events) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for h := range d.events {
		list = append(list, h)
	}
	return list
}

// watch calls wake when there are events, and when the channel has ended.
func (h *events) watch() {
	defer close(h.ended)
	for h.readable() {
		h.pending.Store(true)
		h.wake()
		select {
		case <-h.look:
		case <-h.done:
			return
		}
	}
	h.lose()
}

// readable waits until the pipe is readable and reports false at its end. It reads
// nothing: the daemon removes what it wrote when there are no more events.
func (h *events) readable() (ok bool) {
	raw, err := h.pipe.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Read(func(fd uintptr) bool {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(p, 0)
		ok = n > 0 && p[0].Revents&unix.POLLIN != 0
		return n > 0 || err != nil && err != unix.EINTR
	})
	return ok && err == nil
}

// lose handles the end of the device for the channel's ids.
func (h *events) lose() {
	h.d.moves.Lock()
	defer h.d.moves.Unlock()
	h.mu.Lock()
	first := !h.lost
	h.lost = true
	ids := slices.SortedFunc(maps.Keys(h.ids), func(a, b *id) int { return cmp.Compare(a.uid, b.uid) })
	h.mu.Unlock()
	if !first {
		return
	}
	h.tell(slices.DeleteFunc(ids, func(x *id) bool { return !x.remove() })...)
}

// tell queues the device's end for ids.
func (h *events) tell(ids ...*id) {
	h.mu.Lock()
	h.left = append(h.left, ids...)
	h.mu.Unlock()
	h.wake()
}

// join adds an id to the channel and reports whether the device has ended.
func (h *events) join(x *id) (lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ids != nil {
		h.ids[x] = struct{}{}
	}
	return h.lost
}

// leave removes an id from the channel and reports whether the id was still waiting
// to be told of the device's end.
func (h *events) leave(x *id) (left bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ids, x)
	n := len(h.left)
	h.left = slices.DeleteFunc(h.left, func(y *id) bool { return y == x })
	return len(h.left) < n
}

// removed returns the event of the device's end for an id.
func (h *events) removed() (provider.ConnEvent, bool) {
	for {
		h.mu.Lock()
		if len(h.left) == 0 {
			h.mu.Unlock()
			return provider.ConnEvent{}, false
		}
		x := h.left[0]
		h.left = h.left[1:]
		h.mu.Unlock()
		if x.Removed() {
			return provider.ConnEvent{Type: cmid.EventDeviceRemoval, Owner: x.ownerNow()}, true
		}
	}
}

func (h *events) isLost() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// Poll implements provider.EventChannel.
func (h *events) Poll() (provider.ConnEvent, bool) {
	h.turn.Lock()
	defer h.turn.Unlock()
	for {
		if h.isLost() {
			return h.removed()
		}
		if h.over || !h.pending.Load() {
			return provider.ConnEvent{}, false
		}
		a, err := h.ask(uapi.CMGetEvent, uapi.Bytes(&uapi.Response{}), uapi.Size[uapi.CMEvent]()+uapi.Size[uapi.OwnCMEvent]())
		switch {
		case errors.Is(err, syscall.EAGAIN):
			h.pending.Store(false)
			select {
			case h.look <- struct{}{}:
			default:
			}
		case err != nil:
			h.lose()
		default:
			if e, ok := h.event(a); ok {
				return e, true
			}
		}
	}
}

// event parses an event. ok is false if the program has destroyed the object that
// it concerns.
func (h *events) event(a []byte) (provider.ConnEvent, bool) {
	v, _ := uapi.Parse[uapi.CMEvent](a)
	own, _ := uapi.Parse[uapi.OwnCMEvent](a[uapi.Size[uapi.CMEvent]():])
	e := provider.ConnEvent{Type: cmid.EventType(v.Event), Status: int(int32(v.Status))}
	owner, _ := h.d.owner(v.UID)
	x, ok := owner.(*id)
	if g, joined := owner.(*membership); joined {
		x, ok = g.id, true
		e.Group, e.Context = g.addr, g.context
	}
	if e.Type == cmid.EventConnectRequest {
		n := &id{num: v.ID, waiting: true}
		if ok {
			n.space, n.kind = x.space, x.kind
		}
		h.newID(n).found(&own)
		if !ok {
			n.Destroy()
			return e, false
		}
		e.New = n
	} else if ok {
		x.found(&own)
		x.came(e.Type)
	}
	if !ok {
		return e, false
	}
	e.Owner = x.ownerNow()
	if x.kind == qp.UD {
		p, _ := uapi.Parse[uapi.UDParam](v.Param[:])
		e.UD = cmid.UDParam{QPN: p.QPN, QKey: p.QKey, PrivateData: private(p.Private[:], p.PrivateLen)}
		if own.UDPPort != 0 {
			e.UD.Path = h.d.path(&p.AH, own.UDPPort)
		}
	} else {
		p, _ := uapi.Parse[uapi.ConnParam](v.Param[:])
		e.Conn = cmid.ConnParam{
			QPN: p.QPN, PrivateData: private(p.Private[:], p.PrivateLen), ResponderResources: p.ResponderResources,
			InitiatorDepth: p.InitiatorDepth, FlowControl: p.FlowControl != 0, RetryCount: p.RetryCount, RNRRetryCount: p.RNRRetryCount,
			SRQ: p.SRQ != 0,
		}
	}
	e.Err = h.failure(&e, &own, x.Remote())
	return e, true
}

func private(b []byte, n uint8) []byte { return slices.Clone(b[:min(int(n), len(b))]) }

// ask makes a command of connection management. Its answer has n bytes. The address
// of the answer is at the front of the body.
func (h *events) ask(number uint32, body []byte, n int) ([]byte, error) {
	return h.command(number, body, 0, n, nil)
}

// do is ask without an answer.
func (h *events) do(number uint32, body []byte) error {
	_, err := h.command(number, body, -1, 0, nil)
	return err
}

// command is ask with the address at an offset of the body, -1 for none. If there
// is a value for the daemon to read, the address is that of the value.
func (h *events) command(number uint32, body []byte, at, n int, value []byte) ([]byte, error) {
	head := uapi.CMHeader{Command: number, In: uint16(len(body)), Out: uint16(n)}
	data := slices.Concat(uapi.Bytes(&head), body)
	r := uapi.Request{Op: uapi.OpWrite, File: h.file, Arg: [4]uint64{1: uint64(len(data))}}
	answer := make([]byte, n)
	short := data
	if len(data) > uapi.MaxData {
		short = nil // the daemon reads it at its address
	}
	_, fds, err := h.d.call(&r, short, nil, answer, func(c *conn) {
		clear(c.room[:])
		copy(c.room[:], value)
		if at >= 0 {
			at := len(data) - len(body) + at
			copy(data[at:at+8], uapi.Bytes(&[1]uint64{uint64(uintptr(unsafe.Pointer(&c.room)))}))
		}
		if short == nil {
			copy(c.long[:], data)
			r.Arg[0] = uint64(uintptr(unsafe.Pointer(&c.long)))
		}
	})
	closeAll(fds)
	return answer, err
}

// failure returns the error that a failure event reports, with the daemon's named
// reason.
func (h *events) failure(e *provider.ConnEvent, own *uapi.OwnCMEvent, peer netip.AddrPort) error {
	if e.Status == 0 {
		return nil
	}
	var d reason.Detail
	if h.named {
		d = reason.Detail{Reason: reason.Reason(own.Reason), Expected: own.Expected, Found: own.Found}
	}
	switch {
	case e.Type == cmid.EventRejected:
		return &cmid.RejectedError{Addr: peer, Reason: mad.RejectReason(e.Status), PrivateData: e.Conn.PrivateData, Detail: d}
	case e.Type == cmid.EventUnreachable && e.Status > 0:
		return &cmid.LookupError{Addr: peer, Status: mad.SIDRStatus(e.Status), PrivateData: e.UD.PrivateData, Detail: d}
	case e.Status == cmid.StatusTimedOut && d.Reason != reason.None:
		return &cmid.TimeoutError{Addr: peer, Detail: d}
	}
	text := string(own.Text[:min(int(own.TextLen), len(own.Text))])
	return &failureError{text, syscall.Errno(max(-e.Status, 0)), d}
}

// Close implements provider.EventChannel. When it returns the daemon has released
// the channel's objects.
func (h *events) Close() error {
	h.end()
	h.mu.Lock()
	ids := h.ids
	h.ids = nil
	h.mu.Unlock()
	for x := range ids {
		x.forget()
	}
	return nil
}

// end closes the file and keeps the ids that must be told of the device's end.
func (h *events) end() {
	h.closing.Do(func() {
		h.d.mu.Lock()
		delete(h.d.events, h)
		h.d.mu.Unlock()
		h.turn.Lock()
		h.over = true
		h.turn.Unlock()
		r := uapi.Request{Op: uapi.OpClose, File: h.file}
		_, _, _ = h.d.call(&r, nil, nil, nil, nil) // fails if the daemon has ended
		close(h.done)
		_ = h.pipe.Close()
		<-h.ended
	})
}

var _ provider.ConnectionManager = (*Device)(nil)
