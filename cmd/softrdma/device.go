package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"softrdma/verbs"
)

// pcapFlag is the persistent flag that openDevice honours.
const pcapFlag = "pcap"

// captures counts the devices that this process captures, for the file names.
var captures struct {
	sync.Mutex
	n int
}

// openDevice opens a device as verbs.Open does and, with --pcap, captures its
// packets until the returned function closes it. The function may be called
// more than once and returns the first error of closing device and capture.
//
// A process that opens several devices gets a file for each of them: the first
// has the name as given, the next one FILE.2 before its extension, and so on.
// Together in one file each packet between two of them would stand twice.
func openDevice(cmd *cobra.Command, name string, cfg verbs.Config) (*verbs.Device, func() error, error) {
	path, err := cmd.Flags().GetString(pcapFlag)
	if err != nil {
		return nil, nil, err
	}
	dev, err := verbs.Open(name, cfg)
	if err != nil {
		return nil, nil, err
	}
	if path == "" {
		return dev, sync.OnceValue(dev.Close), nil
	}
	f, err := os.Create(captureName(path))
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("--%s: %w", pcapFlag, err), dev.Close())
	}
	if _, err := dev.Capture(f); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("--%s: %w", pcapFlag, err), dev.Close(), f.Close())
	}
	return dev, sync.OnceValue(func() error { return errors.Join(dev.Close(), f.Close()) }), nil
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

// opensNoDevice refuses --pcap for a command that has nothing to capture.
func opensNoDevice(cmd *cobra.Command, _ []string) error {
	if cmd.Flags().Changed(pcapFlag) {
		return usageErrorf("%s opens no device: --%s has nothing to capture", cmd.CommandPath(), pcapFlag)
	}
	return nil
}
