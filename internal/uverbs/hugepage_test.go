//go:build linux

package uverbs

import (
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/uverbs/commands"
	"softrdma/internal/wire/uapi"
)

// Only the program can do it, so the answer to its command asks for it.
func TestRegistrationRequestsHugePages(t *testing.T) {
	if commands.HugePage() == 0 {
		t.Skip("SKIPPED: no transparent huge pages here")
	}
	f := newTestClient(t, newServer(t, "127.14.1.91")).open("uverbs0")
	pd, _, _ := do[uapi.HandleOnly](f, uapi.CmdAllocPD, uapi.Bytes(&uapi.Response{}), 4)
	mem, err := unix.Mmap(-1, 0, int(3*commands.HugePage()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	for _, n := range []uint64{4096, uint64(len(mem))} {
		h := uapi.CmdHeader{Command: uapi.CmdRegMR, InWords: uint16(8+uapi.Size[uapi.RegMR]()) / 4, OutWords: 3}
		q := uapi.RegMR{Response: addrOf(f.alloc(12)), Start: addrOf(mem), Length: n, HCAVA: addrOf(mem), PDHandle: pd.Handle}
		got, _, p := f.write(append(uapi.Bytes(&h), uapi.Bytes(&q)...))
		if got < 0 {
			t.Fatalf("%d bytes: %v", n, got)
		}
		asked := p.Flags&uapi.ReplyCollapse != 0
		if asked != (n >= commands.CollapseFrom) || asked && (p.Offset%commands.HugePage() != 0 || p.Rdev%commands.HugePage() != 0 || p.Rdev < 2*commands.HugePage()) {
			t.Errorf("%d bytes at %#x: requested %#x at %#x (%v)", n, addrOf(mem), p.Rdev, p.Offset, asked)
		}
	}
}
