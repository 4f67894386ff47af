package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// mckey joins a multicast group and sends to it or receives from it. Unlike librdmacm's mckey it
// prints "listening" when it has joined, and sends at once.
func mckey(ctx context.Context, f *flag.FlagSet, args []string) error {
	var group, bind string
	var sender bool
	n := &node{}
	f.StringVar(&group, "m", "", "the group")
	f.StringVar(&bind, "b", "", "address to bind to")
	f.BoolVar(&sender, "s", false, "send")
	f.IntVar(&n.count, "C", 10, "messages")
	f.IntVar(&n.size, "S", 100, "size of a message")
	f.Parse(args)
	to, err := netip.ParseAddr(group)
	if err != nil {
		return err
	}
	from, err := address(bind, "0")
	if err != nil {
		return err
	}
	ch := rdmacm.NewEventChannel()
	if n.id, err = ch.NewID(rdmacm.PortSpaceUDP); err != nil {
		return err
	}
	err = n.multicast(ctx, ch, from, to, sender)
	return errors.Join(err, n.close(), ch.Close())
}

func (n *node) multicast(ctx context.Context, ch *rdmacm.EventChannel, from netip.AddrPort, group netip.Addr, sender bool) error {
	if err := n.id.Bind(from); err != nil {
		return err
	}
	if err := n.id.ResolveAddr(noAddress, netip.AddrPortFrom(group, 0)); err != nil {
		return err
	}
	if _, err := next(ctx, ch, rdmacm.EventAddrResolved); err != nil {
		return err
	}
	if err := n.open(verbs.UD, !sender); err != nil {
		return err
	}
	if err := n.id.JoinMulticast(group, n); err != nil {
		return err
	}
	e, err := next(ctx, ch, rdmacm.EventMulticastJoin)
	if err != nil {
		return err
	}
	if e.Context != any(n) {
		return fmt.Errorf("%v has the context %v", e.Type, e.Context)
	}
	fmt.Println("joined dgid:", e.UD.AV.DGID)
	if err := n.reach(e.UD); err != nil {
		return err
	}
	listening()
	if sender {
		err = errors.Join(n.send(), n.awaitSent(ctx))
	} else {
		err = n.awaitReceived(ctx)
	}
	return errors.Join(err, n.id.LeaveMulticast(group))
}
