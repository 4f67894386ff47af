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
		h := cmdHeader{number, uint16((8 + r.in) / 4), uint16(r.out / 4)}
		f.Add(false, append(bytesOf(&h), make([]byte, r.in)...))
	}
	for number, r := range extended {
		h := cmdHeader{number | cmdExtended, uint16(r.in / 8), uint16(r.out / 8)}
		f.Add(false, append(bytesOf(&h), make([]byte, size[exHeader]()+r.in)...))
	}
	for number, r := range ucmCommands {
		h := ucmHeader{number, uint16(r.in), uint16(r.out)}
		f.Add(true, append(bytesOf(&h), make([]byte, r.in)...))
	}
	victim := exec.Command("sleep", "1000")
	if err := victim.Start(); err != nil {
		f.Skip("no program sleep to stand for a client")
	}
	pid := os.Getpid() // several processes fuzz at a time
	s := newServer(f, fmt.Sprintf("127.15.%d.%d", pid>>8&0xff, 1+pid&0x7f))
	f.Cleanup(func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	})
	f.Fuzz(func(t *testing.T, cm bool, b []byte) {
		name := "uverbs0"
		if cm {
			name = "rdma_cm"
		}
		p := s.process(victim.Process.Pid)
		a := &answer{}
		if err := s.open(p, name, a); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		x := s.files[a.File]
		s.mu.Unlock()
		unix.Close(a.fds[0])
		for range 2 {
			a := &answer{}
			r := request{Op: opWrite, Arg: [4]uint64{0, uint64(len(b))}}
			if err := x.call(p, &r, b, a); err != nil {
				a.fail(err)
			}
			a.close()
		}
		x.end()
	})
}
