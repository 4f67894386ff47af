package live

import (
	"math/bits"
	"time"

	"softrdma/internal/link"
	"softrdma/internal/link/fabric"
	"softrdma/internal/reason"
	"softrdma/internal/wire/ib"
)

// A train is packets for a program that become one message of its ring, so that neither side pays
// for a message with each packet. They are of one service level and one size, except that the last
// may be shorter, and their headers differ in nothing but lengths.
type train struct {
	frames [link.MaxPackets][]byte // with VCRC
	pieces [link.MaxPackets][]byte // without
	n      int
	bytes  int
}

// takes reports whether a packet may follow those of the train.
func (t *train) takes(packet []byte) bool {
	if t.n == 0 {
		return true
	}
	size := len(t.pieces[0])
	return t.n < len(t.pieces) && t.bytes+len(packet) <= link.MaxBatch && t.bytes == t.n*size && fabric.Follows(t.pieces[0], packet)
}

func (t *train) add(frame []byte) {
	t.frames[t.n], t.pieces[t.n] = frame, frame[:len(frame)-ib.VCRCLen]
	t.bytes += len(frame) - ib.VCRCLen
	t.n++
}

// level is the service level of a train that is not empty.
func (t *train) level() uint8 { return t.pieces[0][1] >> 4 }

// put takes a packet for the program, from LRH to VCRC, and reports whether there was room. The
// program gets it at once or by the next ring.
func (a *attachment) put(now time.Duration, frame []byte) bool {
	if a.ended {
		a.fabric.subnet.Pool().Recycle(frame)
		return true
	}
	packet := frame[:len(frame)-ib.VCRCLen]
	sl := packet[1] >> 4
	if !a.room(packet) {
		if a.hold(now, sl) {
			return false
		}
		a.fabric.drop(a.at, reason.Detail{Reason: reason.FabricFull, Expected: uint64(sl), Found: uint64(len(packet))})
		a.fabric.subnet.Pool().Recycle(frame)
		return true
	}
	a.out.add(frame)
	a.heard(sl)
	return true
}

// heard notes that the program is to be woken for what was put.
func (a *attachment) heard(level uint8) {
	if a.unheard == 0 {
		a.fabric.todo.wrote = append(a.fabric.todo.wrote, a)
	}
	a.unheard |= 1 << level
}

// room makes the train one that takes a packet, and reports whether the ring has room for both.
func (a *attachment) room(packet []byte) bool {
	if !a.out.takes(packet) {
		a.flush()
	}
	return a.end.Room(packet[1]>>4, 1, a.out.bytes+len(packet))
}

// flush puts the train into the ring, for which there is room.
func (a *attachment) flush() {
	t := &a.out
	if t.n == 0 {
		return
	}
	sl := t.level()
	if !a.ended && !a.end.Put(sl, len(t.pieces[0]), t.pieces[:t.n], t.bytes) {
		a.fail(reason.Detail{Reason: reason.FabricFull, Expected: uint64(sl), Found: uint64(t.bytes)})
	}
	for i, f := range t.frames[:t.n] {
		a.fabric.subnet.Pool().Recycle(f)
		t.frames[i], t.pieces[i] = nil, nil
	}
	t.n, t.bytes = 0, 0
}

// ring publishes to the program what was put, and wakes it if it sleeps.
func (a *attachment) ring() {
	a.flush()
	wake := false
	for rest := a.unheard; rest != 0 && !a.ended; rest &= rest - 1 {
		wake = a.end.Sleeps(uint8(bits.TrailingZeros16(rest))) || wake
	}
	a.unheard = 0
	if wake {
		a.ringer.Ring()
	}
}

// resume offers packets again for which the program has made room, and reports whether it had
// made some.
func (a *attachment) resume(now time.Duration) (some bool) {
	for rest := a.full; rest != 0; rest &= rest - 1 {
		sl := uint8(bits.TrailingZeros16(rest))
		if a.end.Room(sl, 1, a.end.Longest()) {
			a.full &^= 1 << sl
			some = true
		}
	}
	if some {
		a.fabric.network.resume(now, a.at)
	}
	return some
}
