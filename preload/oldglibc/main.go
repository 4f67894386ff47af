// Oldglibc fails if a library of softrdma exec does not run with glibc 2.28, that of Debian 10 and
// RHEL 8. A program whose C library lacks a version of a symbol does not start with the library.
//
//	oldglibc LIBRARY...
package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
)

// oldest is the minor version of the oldest glibc 2 with which the libraries run.
const oldest = 28

func main() {
	var errs []error
	for _, path := range os.Args[1:] {
		if err := check(path); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check returns an error that names each symbol of a newer glibc.
func check(path string) error {
	library, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer library.Close()
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
