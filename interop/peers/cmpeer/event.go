package main

import (
	"context"
	"fmt"
	"net/netip"

	"softrdma/rdmacm"
)

// next waits for an event of one of the types. Any other event is an error.
func next(ctx context.Context, ch *rdmacm.EventChannel, want ...rdmacm.EventType) (rdmacm.Event, error) {
	e, err := ch.Next(ctx)
	if err != nil {
		return e, fmt.Errorf("waiting for %v: %w", want, err)
	}
	for _, w := range want {
		if e.Type == w {
			return e, nil
		}
	}
	if e.Err != nil {
		return e, fmt.Errorf("%v, status %d: %w", e.Type, e.Status, e.Err)
	}
	return e, fmt.Errorf("%v where %v was expected", e.Type, want)
}

// resolve resolves the id's device and route. No other id may have events on the channel.
func resolve(ctx context.Context, ch *rdmacm.EventChannel, id *rdmacm.ID, src, dst netip.AddrPort) error {
	if err := id.ResolveAddr(src, dst); err != nil {
		return err
	}
	if _, err := next(ctx, ch, rdmacm.EventAddrResolved); err != nil {
		return err
	}
	if err := id.ResolveRoute(); err != nil {
		return err
	}
	_, err := next(ctx, ch, rdmacm.EventRouteResolved)
	return err
}

// listenOn makes an id that listens with the given backlog.
func listenOn(ch *rdmacm.EventChannel, ps rdmacm.PortSpace, local netip.AddrPort, backlog int) (*rdmacm.ID, error) {
	id, err := newID(ch, ps)
	if err != nil {
		return nil, err
	}
	if err := id.Bind(local); err != nil {
		id.Destroy()
		return nil, err
	}
	if err := id.Listen(backlog); err != nil {
		id.Destroy()
		return nil, err
	}
	listening()
	return id, nil
}
