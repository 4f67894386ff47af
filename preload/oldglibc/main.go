// Oldglibc fails if a library of softrdma exec does not run with glibc 2.28, that of Debian 10 and
// RHEL 8. A program whose C library lacks a version of a symbol does not start with the library. With
// -needs it fails if the library needs any other: programs that use no RDMA open those files too. With
// -moved it also takes the versions from symbols of the library that these files of C bind.
//
//	oldglibc [-moved preload/glibc.h,…] [-needs libc.so.6] LIBRARY
package main

import (
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// oldest is the minor version of the oldest glibc 2 with which the libraries run.
const oldest = 28

func main() {
	needs := flag.String("needs", "", "the only `LIBRARY` that it may need, any by default")
	moved := flag.String("moved", "", "change the library: symbols that these `FILES` of C bind have no version")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	err := check(flag.Arg(0), *needs)
	if *moved != "" {
		err = errors.Join(err, unversion(flag.Arg(0), strings.Split(*moved, ",")...))
	}
	if err != nil {
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

// anyVersion is the version of a symbol that may have any (VER_NDX_GLOBAL).
const anyVersion = 1

// bound matches what binds a function to an old version, see preload/glibc.h.
var bound = regexp.MustCompile(`(?m)^BIND(?:_AS\(\w+, |\()(\w+)\);$`)

// unversion takes the versions from those symbols of a library that files of C bind. They have moved between
// the files of glibc. Older ones, such as 2.27, start no program if libc.so.6 lacks what the library expects
// there, even if the symbol is weak or another file has it. Without a version any file may have it.
func unversion(path string, files ...string) error {
	moved := map[string]bool{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range bound.FindAllStringSubmatch(string(text), -1) {
			moved[m[1]] = true
		}
	}
	library, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer library.Close()
	symbols, err := library.DynamicSymbols()
	if err != nil {
		return err
	}
	versions := library.Section(".gnu.version")
	if versions == nil {
		return errors.New("expected a section .gnu.version, found none")
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	value := make([]byte, 2)
	library.ByteOrder.PutUint16(value, anyVersion)
	for i, s := range symbols {
		if s.Section != elf.SHN_UNDEF || !moved[s.Name] {
			continue
		}
		if _, err := f.WriteAt(value, int64(versions.Offset)+2*int64(i+1)); err != nil { // DynamicSymbols omits the first
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}
