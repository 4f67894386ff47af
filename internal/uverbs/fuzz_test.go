//go:build linux

package uverbs

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzCommand writes anything to a device file, on behalf of another process:
// what commands name as addresses are that one's.
func FuzzCommand(f *testing.F) {
	for number, r := range commands {
		h := cmdHeader{Command: number, InWords: uint16((8 + r.in) / 4), OutWords: uint16(r.out / 4)}
		for device := range uint8(2) {
			f.Add(device, append(bytesOf(&h), make([]byte, r.in)...))
		}
	}
	for number, r := range extended {
		h := cmdHeader{Command: number | cmdExtended, InWords: uint16(r.in / 8), OutWords: uint16(r.out / 8)}
		for device := range uint8(2) {
			f.Add(device, append(bytesOf(&h), make([]byte, size[exHeader]()+r.in)...))
		}
	}
	for number, r := range ucmCommands {
		h := ucmHeader{Command: number, In: uint16(r.in), Out: uint16(r.out)}
		for device := uint8(2); device < 4; device++ {
			f.Add(device, append(bytesOf(&h), make([]byte, r.in)...))
		}
	}
	victim := exec.Command("sleep", "1000")
	if err := victim.Start(); err != nil {
		f.Skip("no program sleep to stand for a client")
	}
	pid := os.Getpid() // several processes fuzz at a time
	addr := fmt.Sprintf("127.15.%d.%d", pid>>8&0xff, 1+pid&0x7f)
	s := newServer(f, addr+" iwarp:"+addr)
	f.Cleanup(func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	})
	f.Fuzz(func(t *testing.T, device uint8, b []byte) {
		name := []string{"uverbs0", "uverbs1", "rdma_cm", "rdma_cm"}[device%4]
		uid := uint32(os.Geteuid())
		p := s.join(&process{pid: victim.Process.Pid, uid: uid, gid: uint32(os.Getegid()), account: s.account(uid)})
		a := &answer{}
		if err := s.open(p, name, 0, a); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		x := s.files[a.File]
		s.mu.Unlock()
		unix.Close(a.fds[0])
		if m, ok := x.service.(*manager); ok {
			m.own = device%4 == 3
		}
		for range 2 {
			a := &answer{}
			r := request{Op: opWrite, Arg: [4]uint64{0, uint64(len(b))}}
			if err := x.call(p, &r, b, nil, a); err != nil {
				a.fail(err, false)
			}
			a.close()
		}
		x.end()
	})
}
