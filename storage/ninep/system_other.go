//go:build !linux

package ninep

import (
	"hash/fnv"
	"os"
	"time"

	"github.com/hugelgupf/p9/p9"
)

// openFlags are the flags that each open has.
const openFlags = 0

func qidOf(info os.FileInfo, path string) p9.QID {
	h := fnv.New64()
	_, _ = h.Write([]byte(path)) // never fails
	return p9.QID{Type: p9.ModeFromOS(info.Mode()).QIDType(), Path: h.Sum64()}
}

// identity returns what names a file, which is its path.
func identity(_ os.FileInfo, path string) any { return path }

func attrOf(info os.FileInfo) p9.Attr { return plainAttr(info) }

// setTimes sets times of a file, and keeps those that are zero. It follows symbolic links within the root.
func (f *file) setTimes(atime, mtime time.Time) error { return f.root().Chtimes(f.path, atime, mtime) }

func statFS(*os.Root) (p9.FSStat, error) { return p9.FSStat{BlockSize: 4096, NameLength: 255}, nil }
