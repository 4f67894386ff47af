package cli

import (
	"context"
	"fmt"
	"time"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// ExplainPathMTU adds to the error of a connection with the server at host:port that
// packets of this end no longer fit the path. The peer does not know that and only
// reports missing packets. The connection must still be open: the address resolves to
// its device then.
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
			return fmt.Errorf("%s: %d times packets were longer than the path carries%s (see: softrdma explain %s): %w", name, n, mtuMismatch(dev), name, err)
		}
	}
	return err
}

// mtuMismatch names two lengths: the interface MTU that the device's path MTU needs, and
// the one that the interface has.
func mtuMismatch(dev *verbs.Device) string {
	list, err := verbs.Devices()
	if err != nil {
		return ""
	}
	for i := range list {
		if list[i].Addr == dev.Addr().Addr() {
			return fmt.Sprintf(": expected room for a path MTU of %d bytes with headers, found %s with MTU %d",
				dev.QueryPort().ActiveMTU, list[i].Interface, list[i].LinkMTU)
		}
	}
	return ""
}
