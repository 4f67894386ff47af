package nfs

import (
	"os"

	gonfs "github.com/willscott/go-nfs"
	"golang.org/x/sys/unix"
)

// statFS fills in the space of the file system.
func statFS(root *os.Root, s *gonfs.FSStat) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(d.Fd()), &st); err != nil {
		return err
	}
	block := uint64(st.Bsize)
	s.TotalSize, s.FreeSize, s.AvailableSize = st.Blocks*block, st.Bfree*block, st.Bavail*block
	s.TotalFiles, s.FreeFiles, s.AvailableFiles = st.Files, st.Ffree, st.Ffree
	return nil
}
