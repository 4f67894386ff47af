package cli

import (
	"context"
	"fmt"
	"time"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// ExplainPathMTU adds to an error of a connection with the server at host:port that
// packets no longer fit the path's MTU, if that is the cause. The peer cannot know and
// reports only missing packets. The connection must still be open, so that the address
// resolves to its device.
func (e *StreamEnd) ExplainPathMTU(ctx context.Context, at string, err error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	d := rdmacm.Dialer{Protocol: e.protocol.Verbs()}
	to, failed := d.Resolve(ctx, at)
	if failed != nil {
		return err
	}
	defer to.Close()
	return withPathMTU(to.Device(), err)
}

func withPathMTU(dev *verbs.Device, err error) error {
	const name = "PATH_MTU"
	for reason, n := range dev.Counters() {
		if reason == name {
			return fmt.Errorf("%s: %d packets exceeded the MTU of the path%s (see: softrdma explain %s): %w", name, n, mtuMismatch(dev), name, err)
		}
	}
	return err
}

// mtuMismatch describes the interface MTU that the device's path MTU needs and the one
// that the interface has.
func mtuMismatch(dev *verbs.Device) string {
	list, err := verbs.Devices()
	if err != nil {
		return ""
	}
	for i := range list {
		if list[i].Addr == dev.Addr().Addr() {
			return fmt.Sprintf(": a path MTU of %d bytes plus headers does not fit the MTU of %s, %d",
				dev.QueryPort().ActiveMTU, list[i].Interface, list[i].LinkMTU)
		}
	}
	return ""
}
