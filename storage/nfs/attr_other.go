//go:build !unix

package nfs

import "os"

// openFlags are the flags that each open has.
const openFlags = 0

// systemAttr fills in what the system knows of a file. It reports false if that is nothing.
func systemAttr(os.FileInfo, *attr) bool { return false }
