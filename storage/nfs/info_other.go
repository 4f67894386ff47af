//go:build !unix

package nfs

import (
	"hash/fnv"
	"os"
)

// openFlags are the flags that each open has.
const openFlags = 0

// infoID returns an identity of a file where the system has none: that of its path.
func infoID(_ os.FileInfo, path string) fileID {
	h := fnv.New64()
	_, _ = h.Write([]byte(path)) // never fails
	return fileID{number: h.Sum64()}
}
