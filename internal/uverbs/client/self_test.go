//go:build linux

package client

import (
	"bytes"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/memory"
)

func TestOwnMemoryThatIsNotMappedIsAnError(t *testing.T) {
	p := NewSelf()
	defer p.Close()
	page := unix.Getpagesize()
	mem, err := unix.Mmap(-1, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	if err := unix.Mprotect(mem[page:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	at, data := memory.Addr(mem), []byte("a program's")
	got := make([]byte, len(data))
	if err := p.Store(at, data); err != nil {
		t.Error(err)
	}
	if err := p.Load(got, at); err != nil || !bytes.Equal(got, data) {
		t.Errorf("loaded %q: %v", got, err)
	}
	end := at + uint64(page) - 4
	if err := p.Store(end, data); err != syscall.EFAULT {
		t.Errorf("store: expected %v, found %v", syscall.EFAULT, err)
	}
	if err := p.Load(got, end); err != syscall.EFAULT {
		t.Errorf("load: expected %v, found %v", syscall.EFAULT, err)
	}
	if _, _, err := p.Mapped(at, at+uint64(page), true); err != nil {
		t.Error(err)
	}
	if _, _, err := p.Mapped(at, at+2*uint64(page), false); err == nil {
		t.Error("a page without access counts as mapped")
	}
}
