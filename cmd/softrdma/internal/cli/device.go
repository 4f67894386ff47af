package cli

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

// PcapFlag is the flag that OpenDevice captures by.
const PcapFlag = "pcap"

// AddDeviceFlags gives a command the flags that OpenDevice honours: those of
// captures and of iWARP. Commands that open no device for their user don't have
// them.
func AddDeviceFlags(cmd *cobra.Command) {
	cmd.Flags().String(PcapFlag, "", "capture the packets of the command's device to `FILE` (pcapng, for Wireshark and softrdma capture)")
	AddIWARPFlags(cmd)
}

// captureFiles counts the devices that this process captures, for the file names.
var captureFiles struct {
	sync.Mutex
	n int
}

// OpenDevice opens a device as verbs.Open does, with what flags say of iWARP, and,
// with --pcap, captures its packets until the returned function closes it. The
// function may be called more than once and returns the first error of closing
// device and capture.
//
// A process that opens several devices gets a file for each of them: the first
// has the name as given, the next one FILE.2 before its extension, and so on.
// Together in one file each packet between two of them would stand twice.
func OpenDevice(cmd *cobra.Command, name string, cfg verbs.Config) (*verbs.Device, func() error, error) {
	if cfg.TLS == nil {
		var err error
		if cfg.TLS, err = tlsConfig(cmd, ""); err != nil {
			return nil, nil, err
		}
	}
	if err := checkIWARPFlags(cmd, strings.HasPrefix(name, IWARPPrefix)); err != nil {
		return nil, nil, err
	}
	if cfg.TLS != nil {
		cfg.TLSRefused = ReportRefused(cmd.ErrOrStderr())
	}
	applyIWARPFlags(cmd, &cfg)
	dev, err := verbs.Open(name, cfg)
	if err != nil {
		return nil, nil, err
	}
	endCapture, err := CaptureDevice(cmd, dev)
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

// CaptureDevice captures, with --pcap, a device that is open until the returned
// function is called: one that the connection manager chose.
func CaptureDevice(cmd *cobra.Command, dev *verbs.Device) (func() error, error) {
	path := FlagText(cmd, PcapFlag)
	if path == "" {
		return func() error { return nil }, nil
	}
	// A device that cannot be captured leaves a file that is there as it is.
	probe, err := dev.Capture(io.Discard)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", PcapFlag, err)
	}
	if err := probe.Close(); err != nil {
		return nil, fmt.Errorf("--%s: %w", PcapFlag, err)
	}
	f, err := os.Create(captureFileName(path))
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", PcapFlag, err)
	}
	c, err := dev.Capture(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--%s: %w", PcapFlag, err), f.Close())
	}
	return sync.OnceValue(func() error {
		err := errors.Join(c.Close(), f.Close())
		if err != nil {
			err = OutputFailed(fmt.Errorf("--%s: the capture is not whole: %w", PcapFlag, err))
		}
		return err
	}), nil
}

func captureFileName(path string) string {
	captureFiles.Lock()
	defer captureFiles.Unlock()
	captureFiles.n++
	if captureFiles.n == 1 {
		return path
	}
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%d%s", strings.TrimSuffix(path, ext), captureFiles.n, ext)
}
