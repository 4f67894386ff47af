// Oldglibc fails if a library of softrdma exec does not run with glibc 2.28, that of Debian 10 and
// RHEL 8. A program whose C library lacks a version of a symbol does not start with the library. With
// -needs it fails if the library needs any other: programs that use no RDMA open those files too.
//
//	oldglibc [-needs libc.so.6] LIBRARY
package main

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
)

// oldest is the minor version of the oldest glibc 2 with which the libraries run.
const oldest = 28

func main() {
	needs := flag.String("needs", "", "the only `LIBRARY` that it may need, any by default")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := check(flag.Arg(0), *needs); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", flag.Arg(0), err)
		os.Exit(1)
	}
}

// check returns an error that names each symbol of a newer glibc. The library may need only one other,
// unless needs is empty.
func check(path, needs string) error {
	library, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer library.Close()
	if needs != "" {
		if found, err := library.ImportedLibraries(); err != nil || !slices.Equal(found, []string{needs}) {
			return fmt.Errorf("expected to need %s, found %q (%v)", needs, found, err)
		}
	}
	symbols, err := library.ImportedSymbols()
	if err != nil {
		return err
	}
	versions := 0
	var newer []error
	for _, s := range symbols {
		var minor int
		if n, _ := fmt.Sscanf(s.Version, "GLIBC_2.%d", &minor); n == 0 {
			continue
		}
		versions++
		if minor > oldest {
			newer = append(newer, fmt.Errorf("needs %s of glibc 2.%d, expected at most 2.%d: bind it in preload/glibc.h", s.Name, minor, oldest))
		}
	}
	if versions == 0 {
		return errors.New("found no symbol with a version of glibc")
	}
	return errors.Join(newer...)
}
