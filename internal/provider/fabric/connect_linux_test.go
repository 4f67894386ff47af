package fabric

import (
	"context"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/cm"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/qp"
	"softrdma/internal/wire/mad"
)

// The connection managers of two ports set up a connection by LID, and end it.
func TestConnectionAcrossAFabric(t *testing.T) {
	const service mad.ServiceID = 77
	f := fabrictest.Start(t, "star:2")
	var devices [2]*Device
	var events [2]chan cm.Event // without what they lend
	for i := range devices {
		d, err := Open(context.Background(), f.Adapters[i], nil, adapter.Config{GUID: uint64(i + 1)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		fabrictest.WaitFor(t, "an active port", func() bool { return d.Active() && d.Port.Info().PortInfo.LID != 0 })
		c := make(chan cm.Event, 8)
		devices[i], events[i] = d, c
		manage(t, d, func(m *cm.Manager, now time.Duration) error {
			m.SetHandler(func(e *cm.Event) { c <- *e })
			if i == 0 {
				return nil
			}
			_, err := m.Listen(now, service)
			return err
		})
	}
	a, b := devices[0], devices[1]
	lid := b.Port.Info().PortInfo.LID
	manage(t, a, func(m *cm.Manager, now time.Duration) error {
		_, err := m.Connect(now, &cm.ConnectParams{
			Service: service, Path: qp.Path{Dst: qp.LIDEndpoint(lid)}, QPN: 5, RemoteGID: Config(b.Port.Info()).GIDs[0],
		})
		return err
	})
	passive := wait(t, events[1], cm.EventReqReceived).Conn
	if got, want := passive.Path().Dst, qp.LIDEndpoint(a.Port.Info().PortInfo.LID); got != want {
		t.Errorf("the request names %v, expected %v", got, want)
	}
	manage(t, b, func(_ *cm.Manager, now time.Duration) error { return passive.Accept(now, &cm.AcceptParams{QPN: 6}) })
	active := wait(t, events[0], cm.EventRepReceived).Conn
	manage(t, a, func(_ *cm.Manager, now time.Duration) error { return active.Ready(now, nil) })
	wait(t, events[1], cm.EventRtuReceived)
	manage(t, b, func(_ *cm.Manager, now time.Duration) error { return passive.Disconnect(now, nil) })
	wait(t, events[0], cm.EventDreqReceived)
	manage(t, a, func(_ *cm.Manager, now time.Duration) error { return active.DisconnectReply(now, nil) })
	wait(t, events[1], cm.EventDrepReceived)
}

func manage(t *testing.T, d *Device, f func(m *cm.Manager, now time.Duration) error) {
	t.Helper()
	var err error
	if e := d.CM(func(m *cm.Manager, now time.Duration) { err = f(m, now) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
}

func wait(t *testing.T, events chan cm.Event, k cm.Kind) cm.Event {
	t.Helper()
	select {
	case e := <-events:
		if e.Kind != k {
			t.Fatalf("%v, expected %v", e.Kind, k)
		}
		return e
	case <-time.After(20 * time.Second):
		t.Fatalf("no %v", k)
	}
	return cm.Event{}
}
