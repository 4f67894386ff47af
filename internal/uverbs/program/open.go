//go:build linux

package program

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"softrdma/internal/adapter/deferral"
	"softrdma/internal/provider/daemon"
	"softrdma/internal/uverbs/folder"
	"softrdma/verbs"
)

// Open makes the engine of the device behind a device file ("uverbs0") of the server of a
// socket. See New about deferrals and log.
func Open(socket, file string, deferrals []deferral.Place, log func(string)) (*Engine, error) {
	place, _ := folder.Hold(socket) // fails if the server has ended or is another user's
	e, err := open(socket, file, deferrals, log)
	if err != nil && place != nil {
		_ = place.Close()
	}
	if err == nil {
		e.place = place
	}
	return e, err
}

func open(socket, file string, deferrals []deferral.Place, log func(string)) (*Engine, error) {
	info, err := daemon.Ask(socket)
	if err != nil {
		return nil, fmt.Errorf("server on %s: %w", socket, err)
	}
	number, ok := strings.CutPrefix(file, "uverbs")
	index, err := strconv.Atoi(number)
	if !ok || err != nil || index < 0 || index >= len(info.Devices) {
		return nil, fmt.Errorf("device file: expected uverbs0 to uverbs%d, found %q: %w", len(info.Devices)-1, file, syscall.ENOENT)
	}
	about := info.Devices[index]
	if !strings.HasSuffix(about, "("+verbs.RoCE.String()+")") { // the server would refuse and log it
		return nil, fmt.Errorf("%s stays in the server's process, as only a RoCE v2 device can be in a program: %w", about, errors.ErrUnsupported)
	}
	name, _, _ := strings.Cut(about, " ")
	dev, err := verbs.Open("shared:"+socket+"/"+name, verbs.Config{})
	if err != nil {
		return nil, err
	}
	e, err := New(dev, index, deferrals, log)
	if err != nil {
		_ = dev.Close()
	}
	return e, err
}
