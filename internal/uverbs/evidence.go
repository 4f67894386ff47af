//go:build linux

package uverbs

import (
	"fmt"
	"os"

	"softrdma/internal/recorder"
	"softrdma/internal/recordfile"
)

// evidence is what is written of a program that crashes: the flight recorder of its device on a slot. The
// goroutine of the slot uses it.
type evidence struct {
	dir  *os.Root // nil if the program wants none
	name string   // of dir
	pid  int      // of the program, as it knows it

	found *recorder.Snapshot // nil if nothing is to be written
}

// keep takes the directory into which the evidence is written. Files are created below it only: the program
// may be in a container, whose symbolic links mean other files here.
func (x *slot) keep(dir, pid int) {
	f := os.NewFile(uintptr(dir), "directory")
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.IsDir() { // to open a pipe again would wait for its other end
		return
	}
	account := &x.process.Account.Descriptors
	if x.evidence.dir == nil && account.Take(1) != nil {
		return
	}
	path := fmt.Sprintf("/proc/self/fd/%d", dir)
	root, err := os.OpenRoot(path)
	if err != nil {
		if x.evidence.dir == nil {
			account.Return(1)
		}
		return
	}
	if x.evidence.dir != nil {
		_ = x.evidence.dir.Close()
	}
	name, _ := os.Readlink(path)
	x.evidence = evidence{dir: root, name: name, pid: pid}
}

// look takes what is to be written out of the memory of a slot whose program has given it back or has ended.
func (x *slot) look() {
	if x.evidence.dir == nil || x.shared.Left() || !x.process.Exited() {
		return
	}
	if found, unsaved := x.shared.Unsaved(); unsaved && found.Tells() {
		x.evidence.found = found
	}
}

// write writes the evidence, and gives up its directory. The slot is free.
func (x *slot) write(log func(string)) {
	e := &x.evidence
	if e.dir == nil {
		return
	}
	if e.found != nil {
		r := recordfile.Recording{Snapshot: e.found, Addr: x.device.Verbs.Addr(), Local: x.device.Adapter.Local(), Ended: e.pid}
		err := r.Save(e.dir, e.pid, e.found.Latest())
		switch {
		case log == nil:
		case err != nil:
			log(fmt.Sprintf("process %d ended without closing %s: %v", e.pid, x.device.Name, err))
		default:
			log(fmt.Sprintf("process %d ended without closing %s: its flight recorder is in %s", e.pid, x.device.Name, e.name))
		}
	}
	_ = e.dir.Close()
	x.process.Account.Descriptors.Return(1)
}
