//go:build linux

package uverbs

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/commands"
	"softrdma/internal/uverbs/ucm"
	"softrdma/internal/wire/uapi"
)

// FuzzCommand writes anything to a device file, on behalf of another process:
// what commands name as addresses are that one's.
func FuzzCommand(f *testing.F) {
	for device := range uint8(4) {
		list := commands.Samples()
		if device >= 2 {
			list = ucm.Samples()
		}
		for _, b := range list {
			f.Add(device, b)
		}
	}
	f.Add(uint8(4), make([]byte, 64+256))
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
		name := []string{"uverbs0", "uverbs1", "rdma_cm", "rdma_cm", "umad0"}[device%5]
		uid := uint32(os.Geteuid())
		p := s.admission.Join(&client.Process{PID: victim.Process.Pid, UID: uid, GID: uint32(os.Getegid()), Account: s.admission.Account(uid)})
		a := &client.Answer{}
		if err := s.open(p, name, 0, a); err != nil {
			t.Fatal(err)
		}
		x := s.files.Find(a.File)
		unix.Close(a.FDs[0])
		write := func(b []byte) {
			a := &client.Answer{}
			r := uapi.Request{Op: uapi.OpWrite, Arg: [4]uint64{0, uint64(len(b))}}
			if err := x.Call(p, &r, b, a); err != nil {
				a.Fail(err, false)
			}
			a.Close()
		}
		if device%5 == 4 || device%5 < 2 {
			ioctls(x, p, b)
		}
		for range 2 {
			write(b)
		}
		x.End()
	})
}

// ioctls makes each ioctl, and reads. The victim has no structure where they point.
func ioctls(x *client.File, p *client.Process, b []byte) {
	at := uint64(0)
	for _, c := range b[:min(len(b), 8)] {
		at = at<<8 | uint64(c)
	}
	for _, number := range []uint64{uapi.MADEnablePKey, uapi.MADRegisterAgent, uapi.MADRegisterAgent2, uapi.MADUnregisterAgent, uapi.VerbsIoctl, at} {
		_ = x.Call(p, &uapi.Request{Op: uapi.OpIoctl, Arg: [4]uint64{number, at}}, nil, &client.Answer{})
	}
	_ = x.Call(p, &uapi.Request{Op: uapi.OpRead, Arg: [4]uint64{at, at}}, nil, &client.Answer{})
}
