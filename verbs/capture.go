package verbs

import (
	"fmt"
	"io"
	"slices"
	"sync"

	"softrdma/internal/capture"
	"softrdma/internal/reason"
)

// A Capture writes a device's packets to a pcapng file that Wireshark reads.
type Capture struct {
	dev    *Device
	w      *capture.Writer
	detach func()

	once sync.Once
	err  error
}

// Capture writes every packet that the device sends and receives from now on to w
// as pcapng, until the capture or the device is closed. It fails with
// errors.ErrUnsupported on an iWARP device, which uses the system's TCP.
func (d *Device) Capture(w io.Writer) (*Capture, error) {
	if d.protocol == IWARP {
		return nil, reason.NotSupported("capture: iWARP uses the system's TCP, which tcpdump captures")
	}
	cw, err := capture.NewWriter(w)
	if err != nil {
		return nil, err
	}
	c := &Capture{dev: d, w: cw}
	if err := c.attach(); err != nil {
		return nil, err
	}
	d.local.ShowPackets()
	return c, nil
}

func (c *Capture) attach() error {
	d := c.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.drv.Closed(); err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	c.detach = d.local.Trace.Attach(c.w)
	d.captures = append(d.captures, c)
	return nil
}

// Capturing reports whether a capture of the device is open.
func (d *Device) Capturing() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.captures) > 0
}

// Close ends the capture and returns the first error of writing it.
func (c *Capture) Close() error {
	c.once.Do(func() {
		c.detach()
		c.dev.local.ShowPackets()
		c.err = c.w.Close()
		c.dev.mu.Lock()
		defer c.dev.mu.Unlock()
		c.dev.captures = slices.DeleteFunc(c.dev.captures, func(x *Capture) bool { return x == c })
	})
	return c.err
}
