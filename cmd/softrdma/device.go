package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"softrdma/verbs"
)

// pcapFlag is the flag that openDevice captures by.
const pcapFlag = "pcap"

// addDeviceFlags gives a command the flags that openDevice honours: those of
// captures and of iWARP. Commands that open no device for their user don't have
// them.
func addDeviceFlags(cmd *cobra.Command) {
	cmd.Flags().String(pcapFlag, "", "capture the packets of the command's device to `FILE` (pcapng, for Wireshark and softrdma capture)")
	addIWARPFlags(cmd)
}

// flagText is the value of a flag, "" where the command has none of that name.
func flagText(cmd *cobra.Command, name string) string {
	if f := cmd.Flag(name); f != nil {
		return f.Value.String()
	}
	return ""
}

// flagGiven reports whether a flag was given, which a command may not have.
func flagGiven(cmd *cobra.Command, name string) bool {
	f := cmd.Flag(name)
	return f != nil && f.Changed
}

// captures counts the devices that this process captures, for the file names.
var captures struct {
	sync.Mutex
	n int
}

// openDevice opens a device as verbs.Open does, with what flags say of iWARP, and,
// with --pcap, captures its packets until the returned function closes it. The
// function may be called more than once and returns the first error of closing
// device and capture.
//
// A process that opens several devices gets a file for each of them: the first
// has the name as given, the next one FILE.2 before its extension, and so on.
// Together in one file each packet between two of them would stand twice.
func openDevice(cmd *cobra.Command, name string, cfg verbs.Config) (*verbs.Device, func() error, error) {
	if cfg.TLS == nil {
		var err error
		if cfg.TLS, err = security(cmd, ""); err != nil {
			return nil, nil, err
		}
	}
	if err := wantsIWARP(cmd, strings.HasPrefix(name, iwarpPrefix)); err != nil {
		return nil, nil, err
	}
	if cfg.TLS != nil {
		cfg.TLSRefused = tellRefused(cmd.ErrOrStderr())
	}
	applyIWARPFlags(cmd, &cfg)
	dev, err := verbs.Open(name, cfg)
	if err != nil {
		return nil, nil, err
	}
	endCapture, err := captureDevice(cmd, dev)
	if err != nil {
		return nil, nil, errors.Join(err, dev.Close())
	}
	return dev, sync.OnceValue(func() error {
		err := dev.Close() // with its capture, whose error it gives
		if e := endCapture(); e != nil {
			err = e
		}
		return err
	}), nil
}

// captureDevice captures, with --pcap, a device that is open until the returned
// function is called: one that the connection manager chose.
func captureDevice(cmd *cobra.Command, dev *verbs.Device) (func() error, error) {
	path := flagText(cmd, pcapFlag)
	if path == "" {
		return func() error { return nil }, nil
	}
	// A device that cannot be captured leaves a file that is there as it is.
	probe, err := dev.Capture(io.Discard)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", pcapFlag, err)
	}
	if err := probe.Close(); err != nil {
		return nil, fmt.Errorf("--%s: %w", pcapFlag, err)
	}
	f, err := os.Create(captureName(path))
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", pcapFlag, err)
	}
	c, err := dev.Capture(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--%s: %w", pcapFlag, err), f.Close())
	}
	return sync.OnceValue(func() error {
		err := errors.Join(c.Close(), f.Close())
		if err != nil {
			err = outputFailed(fmt.Errorf("--%s: the capture is not whole: %w", pcapFlag, err))
		}
		return err
	}), nil
}

func captureName(path string) string {
	captures.Lock()
	defer captures.Unlock()
	captures.n++
	if captures.n == 1 {
		return path
	}
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, ext), captures.n, ext)
}
