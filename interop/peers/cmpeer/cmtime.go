package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"softrdma/rdmacm"
	"softrdma/verbs"
)

// cmtime opens and closes many connections and prints how long each step took. The server ends
// after serving that many connections.
func cmtime(ctx context.Context, f *flag.FlagSet, args []string) error {
	host := f.String("s", "", "server address; the server has none")
	bind := f.String("b", "", "address to bind to")
	count := f.Int("c", 100, "connections")
	port := f.String("p", "7471", "port")
	f.Parse(args)
	t := &timing{ch: rdmacm.NewEventChannel(), count: *count}
	var err error
	if *host == "" {
		err = t.serve(ctx, *bind, *port)
	} else {
		err = t.call(ctx, *host, *port)
	}
	return errors.Join(err, t.close(), t.ch.Close())
}

// timing is a run of cmtime.
type timing struct {
	ch    *rdmacm.EventChannel
	count int
	ids   []*rdmacm.ID
	pd    *verbs.PD
	cq    *verbs.CQ
}

// createQP makes a small queue pair. All queue pairs share one protection domain and one completion
// queue.
func (t *timing) createQP(id *rdmacm.ID) (err error) {
	if t.pd == nil {
		if t.pd, err = id.Device().AllocPD(); err != nil {
			return err
		}
		if t.cq, err = id.Device().CreateCQ(verbs.CQConfig{Depth: 16}); err != nil {
			return err
		}
	}
	_, err = id.CreateQP(t.pd, verbs.QPConfig{Type: verbs.RC, SendCQ: t.cq, MaxSend: 1, MaxRecv: 1, MaxSendSGE: 1, MaxRecvSGE: 1})
	return err
}

func (t *timing) serve(ctx context.Context, bind, port string) error {
	local, err := address(bind, port)
	if err != nil {
		return err
	}
	l, err := listenOn(t.ch, rdmacm.PortSpaceTCP, local, t.count)
	if err != nil {
		return err
	}
	defer l.Destroy()
	for gone := 0; gone < t.count; {
		e, err := next(ctx, t.ch, rdmacm.EventConnectRequest, rdmacm.EventEstablished, rdmacm.EventDisconnected, rdmacm.EventTimewaitExit)
		if err != nil {
			return err
		}
		switch e.Type {
		case rdmacm.EventConnectRequest:
			t.ids = append(t.ids, e.ID)
			if err := t.createQP(e.ID); err != nil {
				return err
			}
			err = e.ID.Accept(nil)
		case rdmacm.EventDisconnected:
			gone++
			err = e.ID.Disconnect()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *timing) call(ctx context.Context, host, port string) error {
	remote, err := address(host, port)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func(*rdmacm.ID) error
		end  rdmacm.EventType // the event to wait for on each id
		now  bool             // the step completes without an event
	}{
		{name: "create id", now: true, do: func(*rdmacm.ID) error { return nil }},
		{name: "resolve addr", end: rdmacm.EventAddrResolved, do: func(id *rdmacm.ID) error { return id.ResolveAddr(noAddress, remote) }},
		{name: "resolve route", end: rdmacm.EventRouteResolved, do: func(id *rdmacm.ID) error { return id.ResolveRoute() }},
		{name: "create qp", now: true, do: t.createQP},
		{name: "connect", end: rdmacm.EventEstablished, do: func(id *rdmacm.ID) error {
			return id.Connect(&rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RetryCount: 5})
		}},
		{name: "disconnect", end: rdmacm.EventDisconnected, do: (*rdmacm.ID).Disconnect},
	} {
		began := time.Now()
		if len(t.ids) == 0 {
			for range t.count {
				id, err := newID(t.ch, rdmacm.PortSpaceTCP)
				if err != nil {
					return err
				}
				t.ids = append(t.ids, id)
			}
		}
		for _, id := range t.ids {
			if err := step.do(id); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
		for range t.ids {
			if step.now {
				break
			}
			if _, err := next(ctx, t.ch, step.end); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
		took := time.Since(began)
		fmt.Printf("%-14s: %10.2f ms in all, %10.2f us / conn\n", step.name, took.Seconds()*1e3, took.Seconds()*1e6/float64(t.count))
	}
	return nil
}

func (t *timing) close() error {
	var errs []error
	for _, id := range t.ids {
		errs = append(errs, id.Destroy())
	}
	if t.cq != nil {
		errs = append(errs, t.cq.Destroy())
	}
	if t.pd != nil {
		errs = append(errs, t.pd.Dealloc())
	}
	return errors.Join(errs...)
}
