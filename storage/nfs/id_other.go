//go:build !linux

package nfs

import "os"

// identify returns the identity of the file at a path. It does not follow a link.
func identify(root *os.Root, path string) (fileID, error) { return statID(root, path) }
