package packet

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	blockSize = 1 << 16

	// macAt is the offset of a frame in its slot: after the slot's header and the sender's
	// address, so that the network header is aligned (packet(7), TPACKET_V2).
	macAt = (unix.SizeofTpacket2Hdr+unix.SizeofSockaddrLinklayer+16+unix.TPACKET_ALIGNMENT-1)&^(unix.TPACKET_ALIGNMENT-1) - ethernetLen

	ethernetLen = 14
)

// A ring is the receive ring of a socket. The kernel fills its slots in order. A slot belongs
// to the reader from when the kernel sets its status until release.
type ring struct {
	mem     []byte
	slot    int // size in bytes of a slot
	inBlock int // slots in a block
	slots   int
	next    int // slot to be read next
	held    int // slot returned by read and not yet released, or -1
}

// open makes the ring of an unbound socket, of about size bytes with slots for frames of up to
// longest bytes.
func (r *ring) open(fd, size, longest int) error {
	r.held = -1
	r.slot = (macAt + longest + unix.TPACKET_ALIGNMENT - 1) &^ (unix.TPACKET_ALIGNMENT - 1)
	r.inBlock = blockSize / r.slot
	if r.inBlock == 0 {
		return fmt.Errorf("frames of %d bytes, expected at most %d", longest, blockSize-macAt)
	}
	blocks := max(size/blockSize, 2)
	r.slots = blocks * r.inBlock
	if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
		return os.NewSyscallError("setsockopt PACKET_VERSION", err)
	}
	req := unix.TpacketReq{Block_size: blockSize, Block_nr: uint32(blocks), Frame_size: uint32(r.slot), Frame_nr: uint32(r.slots)}
	if err := unix.SetsockoptTpacketReq(fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req); err != nil {
		return os.NewSyscallError("setsockopt PACKET_RX_RING", err)
	}
	mem, err := unix.Mmap(fd, 0, blocks*blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	r.mem = mem
	// A child of a C program's fork would keep the socket open by its mapping.
	return os.NewSyscallError("madvise MADV_DONTFORK", unix.Madvise(mem, unix.MADV_DONTFORK))
}

func (r *ring) close() {
	if r.mem != nil {
		_ = unix.Munmap(r.mem)
		r.mem = nil
	}
}

// at returns slot i.
func (r *ring) at(i int) []byte {
	start := i/r.inBlock*blockSize + i%r.inBlock*r.slot
	return r.mem[start : start+r.slot : start+r.slot]
}

// read returns the next frame, or nil. It is valid until release. Frames that do not fit into
// a slot are skipped: no peer sends them to this device.
func (r *ring) read() []byte {
	for {
		slot := r.at(r.next)
		h := (*unix.Tpacket2Hdr)(unsafe.Pointer(&slot[0]))
		if atomic.LoadUint32(&h.Status)&unix.TP_STATUS_USER == 0 {
			return nil
		}
		r.held = r.next
		if r.next++; r.next == r.slots {
			r.next = 0
		}
		if end := uint(h.Mac) + uint(h.Snaplen); h.Snaplen == h.Len && h.Len > 0 && end <= uint(len(slot)) {
			return slot[h.Mac:end:end]
		}
		r.release()
	}
}

// release returns the slot of the last frame to the kernel.
func (r *ring) release() {
	if r.held >= 0 {
		h := (*unix.Tpacket2Hdr)(unsafe.Pointer(&r.at(r.held)[0]))
		atomic.StoreUint32(&h.Status, unix.TP_STATUS_KERNEL)
		r.held = -1
	}
}
