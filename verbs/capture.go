package verbs

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"softrdma/internal/capture"
)

// A Capture writes a device's packets to a pcapng file that Wireshark reads.
type Capture struct {
	dev    *Device
	w      *capture.Writer
	detach func()

	once sync.Once
	err  error
}

// Capture writes every packet that the device sends and receives from now on
// to w as pcapng, until the capture or the device is closed. An iWARP device
// has no packets of its own, and refuses, as does a daemon's.
func (d *Device) Capture(w io.Writer) (*Capture, error) {
	if d.protocol == IWARP {
		return nil, fmt.Errorf("capture: iWARP is streams of the system's TCP, which tcpdump captures: %w", errors.ErrUnsupported)
	}
	cw, err := capture.NewWriter(w)
	if err != nil {
		return nil, err
	}
	c := &Capture{dev: d, w: cw}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.drv.Closed(); err != nil {
		return nil, fmt.Errorf("capture: %w", err)
	}
	if d.remote {
		return nil, fmt.Errorf("capture: a daemon's device is captured by the daemon (--pcap): %w", errors.ErrUnsupported)
	}
	c.detach = d.local.Trace.Attach(cw)
	d.captures = append(d.captures, c)
	return c, nil
}

// Close ends the capture and returns the first error of writing it.
func (c *Capture) Close() error {
	c.once.Do(func() {
		c.detach()
		c.err = c.w.Close()
		c.dev.mu.Lock()
		defer c.dev.mu.Unlock()
		c.dev.captures = slices.DeleteFunc(c.dev.captures, func(x *Capture) bool { return x == c })
	})
	return c.err
}
