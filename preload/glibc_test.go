package preload

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io"
	"testing"

	"softrdma/internal/testenv"
)

// oldestGlibc is the minor version of the oldest glibc 2 with which the libraries run: that of Debian 10
// and RHEL 8.
const oldestGlibc = 28

// A program whose C library lacks a version of a symbol does not start with the library.
func TestLibrariesRunWithOldGlibc(t *testing.T) {
	preloaded, err := Library()
	if err != nil {
		testenv.Lacks(t, err.Error())
	}
	f, _, err := Engine()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	for name, library := range map[string][]byte{"preload.so": preloaded, "engine.so": engine} {
		l, err := elf.NewFile(bytes.NewReader(library))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		symbols, err := l.ImportedSymbols()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		versions := 0
		for _, s := range symbols {
			var minor int
			if n, _ := fmt.Sscanf(s.Version, "GLIBC_2.%d", &minor); n == 0 {
				continue
			}
			versions++
			if minor > oldestGlibc {
				t.Errorf("%s needs %s of glibc 2.%d, expected at most 2.%d: bind it in glibc.h", name, s.Name, minor, oldestGlibc)
			}
		}
		if versions == 0 {
			t.Errorf("%s: found no symbol with a version of glibc", name)
		}
	}
}
