package verbs

import (
	"io"

	"softrdma/internal/capture"
)

// A Capture writes a device's packets to a pcapng file that Wireshark reads.
type Capture struct {
	w      *capture.Writer
	detach func()
}

// Capture writes every packet that the device sends and receives from now on
// to w as pcapng, until the capture or the device is closed.
func (d *Device) Capture(w io.Writer) (*Capture, error) {
	cw, err := capture.NewWriter(w)
	if err != nil {
		return nil, err
	}
	c := &Capture{w: cw}
	c.detach = d.a.Trace.Attach(cw)
	d.mu.Lock()
	d.captures = append(d.captures, c)
	d.mu.Unlock()
	return c, nil
}

// Close ends the capture and returns the first error of writing it.
func (c *Capture) Close() error {
	c.detach()
	return c.w.Close()
}
