// Package preload holds the library that softrdma exec preloads into programs,
// where it was built (make preload) before this package was. It is the only C
// of the project, stands in src, and has no logic of RDMA.
package preload

import (
	"embed"
	"errors"
	"runtime"
)

// The folder is always there; the libraries are where a C compiler was.
//
//go:embed lib
var files embed.FS

// ErrNotBuilt tells that the library is not part of this build.
var ErrNotBuilt = errors.New("this build of softrdma has no preload library for " + runtime.GOARCH +
	`: install a C compiler (gcc), run "make preload build" in softrdma's sources and use bin/softrdma`)

// Library is the library for this system.
func Library() ([]byte, error) {
	b, err := files.ReadFile("lib/softrdma-" + runtime.GOOS + "-" + runtime.GOARCH + ".so")
	if err != nil {
		return nil, ErrNotBuilt
	}
	return b, nil
}
