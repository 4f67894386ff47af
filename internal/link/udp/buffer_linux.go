//go:build linux && !softrdma_portable

package udp

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A receiveBuffer is the size of a link's receive buffer, which follows need: it doubles when the
// system has dropped packets for want of room, and gets its initial size again when nothing is
// received any more. On a fast long path more arrives while a process waits for its processor than
// the initial size holds. Send buffers need not follow, since a datagram that was sent leaves the
// host at once: what is in flight is in no buffer.
//
// What other links are told of the size does not change with it (Link.Capabilities), so that no
// sender relies on it.
type receiveBuffer struct {
	fixed       bool // the program has chosen the size
	least, most int  // requested bytes
	size        int
	keep        time.Duration // while nothing is received
	batches     uint8         // until the next look
	drops       uint32
	grown       atomic.Bool
}

const (
	// mostGrown is the limit of the receive buffers of a device, together.
	mostGrown = 64 << 20

	// keptBuffer is how long a receive buffer that has grown is kept while nothing is received: some round trips of the
	// longest paths, which lead over satellites. A link that only receives does not know how long its paths are.
	keptBuffer = 5 * time.Second

	// memoryDrops is the index of the number of dropped packets in what SO_MEMINFO returns
	// (SK_MEMINFO_DROPS of linux/sock_diag.h), memoryWords their number.
	memoryDrops = diagMemoryDrops
	memoryWords = memoryDrops + 1
)

// init begins with the size that the socket has.
func (b *receiveBuffer) init(fd, size int) {
	b.least, b.size, b.keep = size, size, keptBuffer
	b.share(1)
	b.drops, _ = drops(fd)
}

// share makes the buffer one of n of a device.
func (b *receiveBuffer) share(n int) {
	b.most = b.least
	if !b.fixed {
		b.most = max(b.least, mostGrown/n)
	}
}

// received counts a batch, and looks for dropped packets now and then.
func (b *receiveBuffer) received(fd int) {
	if b.batches++; b.batches == 0 && b.size < b.most {
		b.look(fd)
	}
}

// look makes the buffer larger if packets were dropped since the last look.
func (b *receiveBuffer) look(fd int) {
	n, ok := drops(fd)
	if !ok || n == b.drops {
		return
	}
	b.drops = n
	b.resize(fd, min(2*b.size, b.most))
}

// shrink gives the buffer its initial size again.
func (b *receiveBuffer) shrink(fd int) {
	if b.grown.Load() {
		b.resize(fd, b.least)
		b.drops, _ = drops(fd)
	}
}

func (b *receiveBuffer) resize(fd, size int) {
	setBuffer(fd, unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, size)
	b.size = size
	b.grown.Store(size > b.least)
}

// drops returns the number of packets that a socket had no room for.
func drops(fd int) (n uint32, ok bool) {
	var words [memoryWords]uint32
	size := uint32(unsafe.Sizeof(words))
	_, _, err := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&words)), uintptr(unsafe.Pointer(&size)), 0)
	return words[memoryDrops], err == 0 && size == uint32(unsafe.Sizeof(words))
}
