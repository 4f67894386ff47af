package preload

import (
	"bytes"
	"debug/elf"
	"slices"
	"testing"

	"softrdma/internal/testenv"
)

// Programs that use no RDMA have the library as well: it makes them open no other file.
func TestLibraryNeedsOnlyTheCLibrary(t *testing.T) {
	b, err := Library()
	if err != nil {
		testenv.Lacks(t, err.Error())
	}
	l, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if needed, err := l.ImportedLibraries(); err != nil || !slices.Equal(needed, []string{"libc.so.6"}) {
		t.Errorf("needs %v (%v), expected libc.so.6", needed, err)
	}
}
