package verbs

import (
	"errors"
	"fmt"
	"io"
	"os"
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
	file   captureFile // to which programs on the device's address write, too; empty for none
	own    *os.File    // closed with the capture; nil for a caller's

	once sync.Once
	err  error
}

// Capture writes every packet that the device sends and receives from now on to w
// as pcapng, until the capture or the device is closed. It fails with
// errors.ErrUnsupported on an iWARP device, which uses the system's TCP.
//
// If programs share the device's address (Config.Shared) and w is the *os.File of a regular file,
// programs that open their device from then on add its packets to the file, which is opened for
// appending then.
func (d *Device) Capture(w io.Writer) (*Capture, error) {
	if d.protocol == IWARP {
		return nil, reason.NotSupported("capture: iWARP uses the system's TCP, which tcpdump captures")
	}
	c := &Capture{dev: d}
	start, err := capture.NewWriter, error(nil)
	if f, ok := w.(*os.File); ok && d.slots != nil {
		if c.file, err = shareCapture(f); err != nil {
			return nil, fmt.Errorf("capture: %w", err)
		}
		if c.file.Path != "" {
			start = capture.NewSharedWriter
		}
	}
	if c.w, err = start(w); err != nil {
		return nil, err
	}
	if err := c.attach(); err != nil {
		return nil, err
	}
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
		c.err = c.w.Close()
		if c.own != nil {
			c.err = errors.Join(c.err, c.own.Close())
		}
		c.dev.mu.Lock()
		defer c.dev.mu.Unlock()
		c.dev.captures = slices.DeleteFunc(c.dev.captures, func(x *Capture) bool { return x == c })
	})
	return c.err
}

// A captureFile is a file to which several processes write.
type captureFile struct {
	Path string
	ID   [2]uint64 // device and inode
}

// sharedCapture returns the file to which programs on the device's address write their packets as
// well, an empty one without a capture. It fails if a capture is in progress that programs cannot
// write to.
func (d *Device) sharedCapture() (f captureFile, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.captures {
		if c.file.Path == "" || f.Path != "" && f != c.file {
			return f, reason.NotSupported("a program's device on an address that is captured to something else than one file")
		}
		f = c.file
	}
	return f, nil
}
