//go:build linux

package uverbs

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"softrdma/internal/uverbs/device"
)

// cmRdev is the number of the device file of connection management, a misc device.
var cmRdev = unix.Mkdev(10, 59)

// cmABI is the version of the interface of connection management.
const cmABI = 4

// writeTree writes the files that libraries and programs read below /sys, and the
// numbers of the device files.
func (s *Server) writeTree() error {
	files := map[string]string{
		"sys/class/infiniband_verbs/abi_version": "6",
		"sys/class/misc/rdma_cm/abi_version":     strconv.Itoa(cmABI),
		"sys/class/misc/rdma_cm/dev":             device.FormatNumber(cmRdev),
	}
	for name, k := range s.files.Kinds {
		files["dev/infiniband/"+name] = device.FormatNumber(k.Rdev)
	}
	for _, d := range s.devices {
		d.AddSysfs(files)
	}
	s.management.AddSysfs(files)
	for name, text := range files {
		path := filepath.Join(s.Tree(), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
