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

// PcapFlag names the flag with which OpenDevice captures packets.
const PcapFlag = "pcap"

// KeepReasonsFlag names the flag that sets verbs.Config.KeepReasons.
const KeepReasonsFlag = "keep-reasons"

// faultsFlag names the flag with which OpenDevice injects faults.
const faultsFlag = "faults"

// AddDeviceFlags adds the flags that OpenDevice reads, those of captures, of reasons, of faults, of peers
// on the same host, of iWARP and of metrics, to a command that opens a device for its user. Its RunE is set.
func AddDeviceFlags(cmd *cobra.Command) {
	cmd.Flags().String(PcapFlag, "", "write the device's packets to `FILE` (pcapng, for Wireshark and softrdma capture)")
	cmd.Flags().Bool(KeepReasonsFlag, false, "do not tell softrdma peers why their requests are refused, and why connections end")
	cmd.Flags().String(faultsFlag, "", "inject the faults of the rules in `FILE` (see softrdma fault)")
	addSameHostFlags(cmd)
	AddIWARPFlags(cmd)
	AddMetricsFlag(cmd)
}

// DeviceArguments returns those flags of AddDeviceFlags that the user gave, as arguments for a process that
// may run elsewhere.
func DeviceArguments(cmd *cobra.Command) (args []string, err error) {
	for _, name := range append([]string{PcapFlag, faultsFlag}, tlsFlags[:]...) {
		if !FlagGiven(cmd, name) {
			continue
		}
		path, err := FileOf(cmd, name)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return nil, err
		}
		args = append(args, "--"+name+"="+path)
	}
	for _, name := range []string{KeepReasonsFlag, SameHostFlag, NoCRCFlag, MarkersFlag, tcpCongestionFlag} {
		if FlagGiven(cmd, name) {
			args = append(args, "--"+name+"="+FlagText(cmd, name))
		}
	}
	if FlagGiven(cmd, MetricsFlag) {
		address := FlagText(cmd, MetricsFlag)
		if network, at := metricsAddress(address); network == "unix" {
			if address, err = filepath.Abs(at); err != nil {
				return nil, err
			}
		}
		args = append(args, "--"+MetricsFlag+"="+address)
	}
	if FlagGiven(cmd, sameHostAllowFlag) {
		users, err := cmd.Flags().GetStringSlice(sameHostAllowFlag)
		if err != nil {
			return nil, err
		}
		args = append(args, "--"+sameHostAllowFlag+"="+strings.Join(users, ","))
	}
	return args, nil
}

// captureFiles counts the captures of this process, which get different file names.
var captureFiles struct {
	sync.Mutex
	n int
}

// A Device is an open device. Close also ends its capture.
type Device struct {
	*verbs.Device
	Close       func() error
	CaptureFile string // empty without a capture
}

// OpenDevice opens a device with verbs.Open and the flags of AddDeviceFlags. With
// --pcap it captures the device's packets until Close. Close may be called more than
// once, and returns the first error of closing the device and the capture.
//
// A process that opens several devices writes a file for each: the first has the given
// name, the next one has .2 before the extension, and so on. One file for both ends
// would show each packet between them twice.
func OpenDevice(cmd *cobra.Command, name string, cfg verbs.Config) (Device, error) {
	if err := ApplySameHostFlags(cmd); err != nil {
		return Device{}, err
	}
	if cfg.TLS == nil {
		var err error
		if cfg.TLS, err = tlsConfig(cmd, ""); err != nil {
			return Device{}, err
		}
	}
	prefix, _ := SplitProtocol(name)
	if err := checkIWARPFlags(cmd, Protocol(strings.TrimSuffix(prefix, ":"))); err != nil {
		return Device{}, err
	}
	if cfg.TLS != nil {
		cfg.TLSRefused = reportRefused(cmd.ErrOrStderr())
	}
	applyIWARPFlags(cmd, &cfg)
	cfg.KeepReasons = cfg.KeepReasons || FlagText(cmd, KeepReasonsFlag) == "true"
	refused := func(err error) error { return err }
	if path := FlagText(cmd, faultsFlag); path != "" {
		rules, err := ReadFaults(path)
		if err != nil {
			return Device{}, err
		}
		cfg.Faults = &rules.Rules
		refused = rules.Refused
	}
	dev, err := verbs.Open(name, cfg)
	if err != nil {
		return Device{}, refused(err)
	}
	file, endCapture, err := captureDevice(cmd, dev)
	if err != nil {
		return Device{}, errors.Join(err, dev.Close())
	}
	return Device{Device: dev, CaptureFile: file, Close: sync.OnceValue(func() error {
		err := dev.Close() // also ends the capture and returns its error
		if e := endCapture(); e != nil {
			err = e
		}
		return err
	})}, nil
}

// OpenNames returns the names to pass to verbs.Open for the values of a repeated --device, or
// one empty name.
func (p Protocol) OpenNames(devices []string) (names []string, err error) {
	if len(devices) == 0 {
		devices = []string{""}
	}
	for _, name := range devices {
		if name, err = p.OpenName(name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// OpenShared opens the devices of a server of programs with OpenDevice, so that programs can
// share their addresses. Names are those of OpenNames. CloseAll
// closes the opened devices, also after an error.
func OpenShared(cmd *cobra.Command, names []string) (list []*verbs.Device, closeAll func() error, err error) {
	var ends []func() error
	closeAll = func() (err error) {
		for _, end := range ends {
			err = errors.Join(err, end())
		}
		return err
	}
	for _, name := range names {
		d, err := OpenDevice(cmd, name, verbs.Config{Shared: true})
		if err != nil {
			return nil, closeAll, err
		}
		ends = append(ends, d.Close)
		list = append(list, d.Device)
	}
	return list, closeAll, nil
}

// CaptureDevice captures the packets of an open device to the file of --pcap until the
// returned function is called.
func CaptureDevice(cmd *cobra.Command, dev *verbs.Device) (func() error, error) {
	_, end, err := captureDevice(cmd, dev)
	return end, err
}

// captureDevice also returns the name of the file, which is empty without --pcap.
func captureDevice(cmd *cobra.Command, dev *verbs.Device) (file string, end func() error, err error) {
	path := FlagText(cmd, PcapFlag)
	if path == "" {
		return "", func() error { return nil }, nil
	}
	// A failed attempt must not overwrite an existing file.
	probe, err := dev.Capture(io.Discard)
	if err != nil {
		return "", nil, fmt.Errorf("--%s: %w", PcapFlag, err)
	}
	if err := probe.Close(); err != nil {
		return "", nil, fmt.Errorf("--%s: %w", PcapFlag, err)
	}
	path = captureFileName(path)
	f, err := os.Create(path)
	if err != nil {
		return "", nil, fmt.Errorf("--%s: %w", PcapFlag, err)
	}
	c, err := dev.Capture(f)
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("--%s: %w", PcapFlag, err), f.Close())
	}
	return path, sync.OnceValue(func() error {
		err := errors.Join(c.Close(), f.Close())
		if err != nil {
			err = outputFailed(fmt.Errorf("--%s: incomplete capture: %w", PcapFlag, err))
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
