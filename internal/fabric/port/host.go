package port

import (
	"time"

	"softrdma/internal/wire/ib"
)

// A Host takes the packets that end at this node: an adapter's transports, or the
// agents of a switch. A packet that it does not take stays in the buffer of its lane, and the
// packets of that lane behind it do as well.
type Host struct {
	env     *Env
	timer   Timer
	deliver func(in int, frame []byte) bool
	lanes   [ib.VLs]queue
	waiting uint16
	refused uint16 // lanes whose first packet the host did not take
}

// NewHost returns the host of a port. deliver gets each frame with the number of the host's
// port, or for port 0 that of the port at which the frame arrived, 0 if the node itself sent
// it. It owns the frame if it returns true. If it returns false, it gets the frame again
// after Resume.
func NewHost(env *Env, number int, deliver func(in int, frame []byte) bool) *Host {
	return &Host{env: env, timer: Timer{Port: number, Host: true}, deliver: deliver}
}

// Push queues a packet for the host.
func (h *Host) Push(now time.Duration, k *Packet) {
	h.lanes[k.LRH.VL].push(k)
	h.waiting |= 1 << k.LRH.VL
	h.reschedule(now)
}

// Resume offers the packets again that the host did not take.
func (h *Host) Resume(now time.Duration) {
	h.refused = 0
	h.reschedule(now)
}

// Run delivers the packets that are due.
func (h *Host) Run(now time.Duration) {
	for rest := h.waiting &^ h.refused; rest != 0; rest &= rest - 1 {
		vl := first(rest)
		q := &h.lanes[vl]
		for q.n > 0 && q.head.Due <= now {
			in := h.timer.Port
			if in == 0 {
				in = q.head.In()
			}
			if !h.deliver(in, q.head.Data) {
				h.refused |= 1 << vl
				break
			}
			k := q.pop()
			k.Data = nil
			h.env.Pool.Free(now, k)
		}
		if q.n == 0 {
			h.waiting &^= 1 << vl
		}
	}
	h.reschedule(now)
}

func (h *Host) reschedule(now time.Duration) {
	at := Never
	for rest := h.waiting &^ h.refused; rest != 0; rest &= rest - 1 {
		at = min(at, max(now, h.lanes[first(rest)].head.Due))
	}
	h.env.Schedule.Set(&h.timer, at)
}
