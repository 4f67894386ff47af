//go:build linux

package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"softrdma/internal/daemon"
	"softrdma/internal/ondemand"
	"softrdma/internal/uverbs/folder"
	"softrdma/internal/wire/uapi"
	"softrdma/verbs"
)

// Open opens the device behind a device file ("uverbs0") of the server of a socket, unless it is
// open. What has failed once fails again without another attempt, so that a program does not have
// one device in two places: first reports whether this was the attempt.
func (e *Engine) Open(socket, file string) (first bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err, ok := e.tried[file]; ok {
		return false, err
	}
	place := e.place
	if place == nil {
		place, _ = folder.Hold(socket) // fails if the server has ended or is another user's
	}
	err = e.openShare(socket, file)
	e.tried[file] = err
	switch {
	case err == nil:
		e.place = place
	case place != e.place:
		_ = place.Close()
	}
	return true, err
}

// openTime is how long the server may take to open a device for the program.
const openTime = 10 * time.Second

// openShare opens a device on a share of the address of a server's device.
func (e *Engine) openShare(socket, file string) error {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	info, err := daemon.Ask(ctx, socket)
	if err != nil {
		return fmt.Errorf("server on %s: %w", socket, err)
	}
	number, ok := strings.CutPrefix(file, "uverbs")
	index, err := strconv.Atoi(number)
	if !ok || err != nil || index < 0 || index >= len(info.Devices) {
		return fmt.Errorf("device file: expected uverbs0 to uverbs%d, found %q: %w", len(info.Devices)-1, file, syscall.ENOENT)
	}
	about := info.Devices[index]
	if strings.HasSuffix(about, uapi.NotShared) { // the server would refuse and log it
		return fmt.Errorf("%s: the device stays in the server's process: %w", about, errors.ErrUnsupported)
	}
	name, _, _ := strings.Cut(about, " ")
	dev, err := verbs.OpenShared(ctx, socket+"/"+name, verbs.SharedConfig{})
	if err != nil {
		return err
	}
	if err := keepRecords(dev); err != nil {
		return errors.Join(err, dev.Close())
	}
	if err := e.add(dev, name, index); err != nil {
		return errors.Join(err, dev.Close())
	}
	if e.log != nil {
		e.log(fmt.Sprintf("process %d: %s is in the program", os.Getpid(), name))
	}
	return nil
}

// keepRecords lets a device write its flight recorder if the program's environment names a directory.
func keepRecords(dev *verbs.Device) error {
	if dir := os.Getenv(ondemand.RecordsVariable); dir != "" {
		return dev.KeepRecords(dir)
	}
	return nil
}
