package allocation

import (
	"softrdma/internal/reason"
	"unsafe"

	"golang.org/x/sys/windows"
)

func mapMemory(n int, huge bool) ([]byte, error) {
	if huge {
		return nil, reason.NotSupported("huge pages on this system")
	}
	p, err := windows.VirtualAlloc(0, uintptr(n), windows.MEM_RESERVE|windows.MEM_COMMIT, windows.PAGE_READWRITE)
	if err != nil {
		return nil, err
	}
	// The address comes from the system and lies outside of the Go heap.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&p)), n), nil
}

func unmapMemory(b []byte) error {
	return windows.VirtualFree(uintptr(unsafe.Pointer(unsafe.SliceData(b))), 0, windows.MEM_RELEASE)
}
