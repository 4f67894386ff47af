package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// connectOptions are the options that ucmatose and udaddy have in common.
type connectOptions struct {
	server, bind string
	port         string
	connections  int
	rejections   int
	count, size  int
	tos          int
	space        string
	migrate      bool
	ackTimeout   int
}

func (o *connectOptions) define(f *flag.FlagSet, port, space string) {
	f.StringVar(&o.server, "s", "", "server address; the server has none")
	f.StringVar(&o.bind, "b", "", "address to bind to")
	f.IntVar(&o.connections, "c", 1, "connections")
	f.IntVar(&o.count, "C", 10, "messages of each connection, each way")
	f.IntVar(&o.size, "S", 100, "size of a message")
	f.IntVar(&o.tos, "t", 0, "type of service")
	f.StringVar(&o.space, "P", space, "port space")
	o.port = port
}

// options sets the id's options.
func (o *connectOptions) options(id *rdmacm.ID) error {
	var errs []error
	if o.tos != 0 {
		errs = append(errs, id.SetOption(rdmacm.OptionTOS, o.tos))
	}
	if o.ackTimeout != 0 {
		errs = append(errs, id.SetOption(rdmacm.OptionAckTimeout, o.ackTimeout))
	}
	return errors.Join(errs...)
}

func ucmatose(ctx context.Context, f *flag.FlagSet, args []string) error {
	var o connectOptions
	o.define(f, "", "tcp")
	f.StringVar(&o.port, "p", "7471", "port")
	f.BoolVar(&o.migrate, "m", false, "migrate to another event channel before disconnecting")
	f.IntVar(&o.ackTimeout, "a", 0, "timeout of the queue pair")
	f.IntVar(&o.rejections, "rejections", 0, "requests beyond the connections that a server awaits, and rejects")
	f.Parse(args)
	m := &matose{o: o, ch: rdmacm.NewEventChannel(), space: rdmacm.PortSpaceTCP}
	switch o.space {
	case "tcp":
	case "ib":
		m.space = rdmacm.PortSpaceIB
	default:
		return fmt.Errorf("port space %q is not tcp or ib", o.space)
	}
	run := m.serve
	if o.server != "" {
		run = m.call
	}
	err := run(ctx)
	return errors.Join(err, closeNodes(m.nodes), m.ch.Close())
}

// matose is a run of ucmatose.
type matose struct {
	o     connectOptions
	space rdmacm.PortSpace
	ch    *rdmacm.EventChannel
	nodes []*node
}

func (m *matose) add(id *rdmacm.ID) *node {
	n := &node{id: id, count: m.o.count, size: m.o.size}
	m.nodes = append(m.nodes, n)
	return n
}

func (m *matose) serve(ctx context.Context) error {
	local, err := address(m.o.bind, m.o.port)
	if err != nil {
		return err
	}
	l, err := listenOn(m.ch, m.space, local, m.o.connections)
	if err != nil {
		return err
	}
	defer l.Destroy()
	for established, rejected := 0, 0; established < m.o.connections || rejected < m.o.rejections; {
		e, err := next(ctx, m.ch, rdmacm.EventConnectRequest, rdmacm.EventEstablished)
		if err != nil {
			return err
		}
		if e.Type == rdmacm.EventEstablished {
			established++
			continue
		}
		if len(m.nodes) == m.o.connections {
			if err := errors.Join(e.ID.Reject(nil), e.ID.Destroy()); err != nil {
				return err
			}
			rejected++
			continue
		}
		n := m.add(e.ID)
		if err := errors.Join(m.o.options(e.ID), n.open(verbs.RC, true)); err != nil {
			return err
		}
		if err := e.ID.Accept(nil); err != nil {
			return err
		}
	}
	for _, n := range m.nodes {
		if err := n.send(); err != nil {
			return err
		}
	}
	for _, n := range m.nodes {
		if err := errors.Join(n.awaitSent(ctx), n.awaitReceived(ctx)); err != nil {
			return err
		}
	}
	if err := m.migrate(l); err != nil {
		return err
	}
	for _, n := range m.nodes {
		if err := n.id.Disconnect(); err != nil {
			return err
		}
	}
	return m.disconnected(ctx, false)
}

func (m *matose) call(ctx context.Context) error {
	remote, err := address(m.o.server, m.o.port)
	if err != nil {
		return err
	}
	local, err := address(m.o.bind, "0")
	if err != nil {
		return err
	}
	if m.o.bind == "" {
		local = noAddress
	}
	for range m.o.connections {
		id, err := newID(m.ch, m.space)
		if err != nil {
			return err
		}
		n := m.add(id)
		if err := m.o.options(id); err != nil {
			return err
		}
		if err := resolve(ctx, m.ch, id, local, remote); err != nil {
			return err
		}
		if err := n.open(verbs.RC, true); err != nil {
			return err
		}
	}
	for _, n := range m.nodes {
		if err := n.id.Connect(&rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 5}); err != nil {
			return err
		}
	}
	for range m.nodes {
		if _, err := next(ctx, m.ch, rdmacm.EventEstablished); err != nil {
			return err
		}
	}
	fmt.Println("connected with", remote)
	for _, n := range m.nodes {
		if err := n.awaitReceived(ctx); err != nil {
			return err
		}
	}
	for _, n := range m.nodes {
		if err := n.send(); err != nil {
			return err
		}
	}
	if err := m.migrate(nil); err != nil {
		return err
	}
	return m.disconnected(ctx, true)
}

// migrate moves all ids to another channel.
func (m *matose) migrate(l *rdmacm.ID) error {
	if !m.o.migrate {
		return nil
	}
	ch := rdmacm.NewEventChannel()
	if l != nil {
		if err := l.Migrate(ch); err != nil {
			return err
		}
	}
	for _, n := range m.nodes {
		if err := n.id.Migrate(ch); err != nil {
			return err
		}
	}
	old := m.ch
	m.ch = ch
	return old.Close()
}

// disconnected waits until every connection is disconnected. If answer is set, the peer
// disconnected first and disconnected answers it.
func (m *matose) disconnected(ctx context.Context, answer bool) error {
	for range m.nodes {
		e, err := next(ctx, m.ch, rdmacm.EventDisconnected)
		if err != nil {
			return err
		}
		if answer {
			if err := e.ID.Disconnect(); err != nil {
				return err
			}
		}
	}
	return nil
}
