//go:build linux

package client

import (
	"math"
	"os"
	"syscall"
	"unsafe"

	"softrdma/internal/memory"
)

// NewSelf returns the process that this code runs in, whose program uses a device of the
// same process. Its quotas are what the process may still open and map. Its
// memory is its own.
//
// It opens the list of its mappings now, as the program may have neither a descriptor left
// nor /proc when it registers memory.
func NewSelf() *Process {
	p := &Process{
		PID: os.Getpid(), UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), self: true,
		Account: NewBudget(math.MaxInt64).NewAccount(),
	}
	// The program maps each queue as well, so the account's half of the mappings would be all.
	p.Account.Mappings.Max -= p.Account.Mappings.Max / 8
	p.maps, _ = os.Open("/proc/self/maps") // without it, Mapped fails
	return p
}

// Self reports whether p is this process: its memory can be used in place.
func (p *Process) Self() bool { return p.self }

// OwnMemory returns memory of this process that its program names by an address. It may
// not be mapped. It is the program's, so that no collector moves it.
func OwnMemory(addr uint64, n int) []byte {
	at := uintptr(addr)
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), n)
}

// copyOwn is copy of the program's memory.
func copyOwn(dst, src []byte) error {
	if !memory.CopyUnpinned(dst, src) {
		return syscall.EFAULT
	}
	return nil
}
