// Package preload holds the libraries of softrdma exec, if they were built (make preload)
// before this package: the library that it preloads into programs, which is the project's only
// C and has no RDMA logic (src), and the engine that this one can load into a program
// (engine).
package preload

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
)

// ErrNotBuilt means that a library is not part of this build.
var ErrNotBuilt = errors.New("this build of softrdma has no preload library for " + runtime.GOARCH +
	`: install a C compiler (gcc), run "make preload build" in softrdma's sources and use bin/softrdma`)

// dir is the directory of this system's libraries.
const dir = "lib/" + runtime.GOOS + "-" + runtime.GOARCH + "/"

// Library returns the preloaded library of this system.
func Library() ([]byte, error) {
	b, err := files.ReadFile(dir + "preload.so")
	if err != nil {
		return nil, ErrNotBuilt
	}
	return b, nil
}

// LibraryFile returns the preloaded library as Engine returns the engine.
func LibraryFile() (library fs.File, sum string, err error) {
	b, err := Library()
	if err != nil {
		return nil, "", err
	}
	if library, err = files.Open(dir + "preload.so"); err != nil {
		return nil, "", ErrNotBuilt
	}
	return library, fmt.Sprintf("%x", sha256.Sum256(b)), nil
}

// Engine returns the engine of this system as an open file, and the SHA-256 of its contents in
// hexadecimal. The file is not read, because it is large, and most callers need its contents
// only once.
func Engine() (library fs.File, sum string, err error) {
	b, err := files.ReadFile(dir + "engine.sum")
	if err != nil {
		return nil, "", ErrNotBuilt
	}
	library, err = files.Open(dir + "engine.so")
	if err != nil {
		return nil, "", ErrNotBuilt
	}
	return library, strings.TrimSpace(string(b)), nil
}
