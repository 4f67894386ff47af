package packet

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// maxFilter is the kernel's limit (BPF_MAXINSNS).
const maxFilter = 4096

// Filter sets which frames the link receives. The program runs on each frame from its Ethernet
// header on, without an 802.1Q tag, and returns 0 to ignore a frame. The link itself checks
// that frames came by its interface or the loopback, and were for this host.
func (l *Link) Filter(accept []bpf.Instruction) error {
	list := append(l.iface.filter(), accept...)
	if len(list) > maxFilter {
		return fmt.Errorf("%w: %d instructions, expected at most %d", ErrFilter, len(list), maxFilter)
	}
	code, err := bpf.Assemble(list)
	if err != nil {
		return fmt.Errorf("packet filter: %w", err)
	}
	filter := make([]unix.SockFilter, len(code))
	for i, c := range code {
		filter[i] = unix.SockFilter{Code: c.Op, Jt: c.Jt, Jf: c.Jf, K: c.K}
	}
	if !l.Enter() {
		return errClosed
	}
	defer l.Leave()
	p := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.SetsockoptSockFprog(l.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &p); err != nil {
		return fmt.Errorf("packet filter: %w", err)
	}
	return nil
}

// filter continues with the given program for frames for this host that came by the interface
// or the loopback. The loopback carries frames to a device of this host, whose addresses are
// zero, and frames to a group, of which a link takes those that left by its own interface.
// Frames of a VLAN without an interface belong to another host.
func (i *iface) filter() []bpf.Instruction {
	high, low := binary.BigEndian.Uint32(i.mac[:]), uint32(binary.BigEndian.Uint16(i.mac[4:]))
	return []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtInterfaceIndex},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(i.index), SkipTrue: 8},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(i.loopback), SkipTrue: 6},
		bpf.LoadAbsolute{Off: 0, Size: 1},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: 1, SkipTrue: 5}, // to one host
		bpf.LoadAbsolute{Off: 6, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: high, SkipTrue: 2},
		bpf.LoadAbsolute{Off: 10, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: low, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
		bpf.LoadExtension{Num: bpf.ExtType},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.PACKET_OTHERHOST, SkipTrue: 1},
		bpf.RetConstant{Val: 0},
	}
}

// nothing is the filter of a link before Filter is called.
var nothing = []bpf.Instruction{bpf.RetConstant{Val: 0}}
