//go:build linux

package uverbs

import (
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Programs without the preloaded library read the files of counters, too, for example
// node_exporter. While one does, the files are written again at intervals.
const (
	readersInterval = 200 * time.Millisecond
	readersStay     = time.Minute // after a file was opened last
)

// followReaders keeps the counters of the tree current while files of counters are opened. The
// system reports that by watch; until then, the goroutine sleeps. It does nothing if watch is nil.
func (s *Server) followReaders(watch *os.File) {
	if watch == nil {
		return
	}
	opened := make(chan struct{}, 1)
	s.runtime.Running.Add(1)
	go func() {
		defer s.runtime.Running.Done()
		for b := make([]byte, 4096); ; {
			if _, err := watch.Read(b); err != nil {
				return
			}
			select {
			case opened <- struct{}{}:
			default:
			}
		}
	}()
	defer func() { _ = watch.Close() }() // ends the goroutine's Read
	for s.waitReader(opened) {
		t := time.NewTicker(readersInterval)
		for last := time.Now(); time.Since(last) < readersStay && s.runtime.Context.Err() == nil; {
			if err := s.refresh(counterLife); err != nil && s.cfg.Log != nil {
				s.cfg.Log("sysfs tree: " + err.Error())
			}
			select {
			case <-opened:
				last = time.Now()
			case <-t.C:
			case <-s.runtime.Context.Done():
			}
		}
		t.Stop()
	}
}

// waitReader waits until a file of counters is opened. It reports false at the server's end.
func (s *Server) waitReader(opened <-chan struct{}) bool {
	select {
	case <-opened:
		return true
	case <-s.runtime.Context.Done():
		return false
	}
}

// watchReaders returns a file that is readable when files of counters were opened.
func (s *Server) watchReaders() (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	for _, d := range s.devices {
		for _, name := range []string{"counters", "hw_counters"} {
			dir := filepath.Join(s.Tree(), "sys/class/infiniband", d.Name, "ports/1", name)
			if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_OPEN); err != nil {
				_ = unix.Close(fd)
				return nil, err
			}
		}
	}
	return os.NewFile(uintptr(fd), "inotify"), nil
}
