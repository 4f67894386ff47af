// Package preload holds the libraries of softrdma exec, if they were built (make preload)
// before this package was: the one that it preloads into programs, which is the only C of
// the project and has no logic of RDMA (src), and the engine that this one can open in a
// program (engine).
package preload

import (
	"errors"
	"runtime"
)

// ErrNotBuilt tells that a library is not part of this build.
var ErrNotBuilt = errors.New("this build of softrdma has no preload library for " + runtime.GOARCH +
	`: install a C compiler (gcc), run "make preload build" in softrdma's sources and use bin/softrdma`)

// Library returns the preloaded library of this system.
func Library() ([]byte, error) { return read("preload.so") }

// Engine returns the engine of this system.
func Engine() ([]byte, error) { return read("engine.so") }

func read(name string) ([]byte, error) {
	b, err := files.ReadFile("lib/" + runtime.GOOS + "-" + runtime.GOARCH + "/" + name)
	if err != nil {
		return nil, ErrNotBuilt
	}
	return b, nil
}
