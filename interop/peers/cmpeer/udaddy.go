package main

import (
	"context"
	"errors"
	"flag"
	"net/netip"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// noAddress leaves the choice of the source address to the host's routing.
var noAddress netip.AddrPort

// udaddyPort is the port of udaddy, which has no option for it.
const udaddyPort = "7174"

func udaddy(ctx context.Context, f *flag.FlagSet, args []string) error {
	var o connectOptions
	o.define(f, udaddyPort, "udp")
	f.Parse(args)
	u := &addy{o: o, ch: rdmacm.NewEventChannel()}
	run := u.serve
	if o.server != "" {
		run = u.call
	}
	err := run(ctx)
	return errors.Join(err, closeNodes(u.nodes), u.ch.Close())
}

// addy is a run of udaddy.
type addy struct {
	o     connectOptions
	ch    *rdmacm.EventChannel
	nodes []*node
}

func (u *addy) add(id *rdmacm.ID) *node {
	n := &node{id: id, count: u.o.count, size: u.o.size, remoteQKey: qkey}
	u.nodes = append(u.nodes, n)
	return n
}

func (u *addy) serve(ctx context.Context) error {
	local, err := address(u.o.bind, u.o.port)
	if err != nil {
		return err
	}
	l, err := listenOn(u.ch, rdmacm.PortSpaceUDP, local, u.o.connections)
	if err != nil {
		return err
	}
	defer l.Destroy()
	for range u.o.connections {
		e, err := next(ctx, u.ch, rdmacm.EventConnectRequest)
		if err != nil {
			return err
		}
		n := u.add(e.ID)
		if err := errors.Join(u.o.options(e.ID), n.open(verbs.UD, true)); err != nil {
			return err
		}
		if err := e.ID.Accept(&rdmacm.ConnParam{QPN: n.qp.Number()}); err != nil {
			return err
		}
	}
	for _, n := range u.nodes {
		if err := n.awaitReceived(ctx); err != nil {
			return err
		}
	}
	for _, n := range u.nodes {
		if err := errors.Join(n.send(), n.awaitSent(ctx)); err != nil {
			return err
		}
	}
	return nil
}

func (u *addy) call(ctx context.Context) error {
	remote, err := address(u.o.server, u.o.port)
	if err != nil {
		return err
	}
	for range u.o.connections {
		id, err := u.ch.NewID(rdmacm.PortSpaceUDP)
		if err != nil {
			return err
		}
		n := u.add(id)
		if err := u.o.options(id); err != nil {
			return err
		}
		if err := resolve(ctx, u.ch, id, noAddress, remote); err != nil {
			return err
		}
		if err := n.open(verbs.UD, true); err != nil {
			return err
		}
		if err := id.Connect(nil); err != nil {
			return err
		}
		e, err := next(ctx, u.ch, rdmacm.EventEstablished)
		if err != nil {
			return err
		}
		if err := n.reach(e.UD); err != nil {
			return err
		}
	}
	for _, n := range u.nodes {
		if err := n.send(); err != nil {
			return err
		}
	}
	for _, n := range u.nodes {
		if err := errors.Join(n.awaitSent(ctx), n.awaitReceived(ctx)); err != nil {
			return err
		}
	}
	return nil
}
