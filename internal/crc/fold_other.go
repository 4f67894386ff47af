//go:build !amd64

package crc

import (
	"runtime"

	"golang.org/x/sys/cpu"
)

const folds, wide = false, false

// multiplies reports whether hash/crc32 has instructions for its work here.
var multiplies = map[string]bool{
	"arm64": cpu.ARM64.HasCRC32, "loong64": true, "ppc64le": true, "s390x": true,
}[runtime.GOARCH]

func fold(uint32, *byte, int, *multipliers, bool) uint32 { panic("unreachable: folds is false") }

func foldBehind(uint64, uint64, *byte, int, *multipliers, bool) uint32 {
	panic("unreachable: folds is false")
}
