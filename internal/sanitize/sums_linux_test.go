package sanitize

import (
	"syscall"
	"testing"
)

// Memory that the program has unmapped cannot be read, and is no mistake.
func TestSumsOfUnmappedMemory(t *testing.T) {
	mem, err := syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(mem)
	s, ok := sumsOf([][]byte{mem})
	if !ok {
		t.Fatal("the memory could not be read")
	}
	mem[0]++
	if err := syscall.Mprotect(mem, syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	if found := s.changed([][]byte{mem}); found != "" {
		t.Errorf("found %q", found)
	}
	if _, ok := sumsOf([][]byte{mem}); ok {
		t.Error("memory that is not mapped was read")
	}
}
