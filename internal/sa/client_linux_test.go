package sa

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/management/partitions"
	"softrdma/internal/management/sm"
	"softrdma/internal/provider/fabric"
	"softrdma/internal/reason"
	"softrdma/internal/wire/mad"
)

const service mad.ServiceID = 0x1064000

// open opens the port of adapter i, and waits until it is active.
func open(t *testing.T, f *fabrictest.Fabric, i int) (*Client, *fabric.Device) {
	t.Helper()
	d, err := fabric.Open(context.Background(), f.Adapters[i], nil, adapter.Config{GUID: uint64(i + 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	c := New(d.Port, d.Device.Device)
	t.Cleanup(c.Close)
	return c, d
}

func active(t *testing.T, d *fabric.Device) {
	t.Helper()
	fabrictest.WaitFor(t, "an active port", func() bool { return d.Active() && d.Port.Info().PortInfo.LID != 0 })
}

func TestPathOfAnAddress(t *testing.T) {
	f := fabrictest.Start(t, "ring:3")
	c, d := open(t, f, 0)
	_, peer := open(t, f, 2)
	active(t, d)
	active(t, peer)
	if got := c.Addr(); got != netip.MustParseAddr("10.77.0.1") {
		t.Errorf("own address %v", got)
	}
	gid, err := c.FindGID(netip.MustParseAddr("10.77.0.3"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fabric.Config(peer.Port.Info()).GIDs[0]; gid != want {
		t.Errorf("GID %v, expected %v", gid, want)
	}
	p, err := c.FindPath(gid, service, 0)
	if err != nil {
		t.Fatal(err)
	}
	if lid := peer.Port.Info().PortInfo.LID; p.Path.LID() != lid || p.Path.Global() || p.GID != gid || p.PKey != 0xffff || p.MTU != 4096 || p.Rate == 0 {
		t.Errorf("found %+v, expected a path to LID %d", p, lid)
	}
}

func wantReason(t *testing.T, err error, want reason.Detail) {
	t.Helper()
	var named *reason.Error
	if !errors.As(err, &named) || named.Detail != want {
		t.Errorf("expected %v, found %v", want.Err(), err)
	}
}

func TestPathToAPortThatIsNotThere(t *testing.T) {
	f := fabrictest.Start(t, "star:2")
	c, d := open(t, f, 0)
	active(t, d)
	_, err := c.FindPath(netip.MustParseAddr("fe80::77"), service, 0)
	var named *reason.Error
	if !errors.As(err, &named) || named.Detail.Reason != reason.SAStatus || named.Detail.Found == 0 {
		t.Errorf("%v", err)
	}
}

// Two ports that share no partition have no path.
func TestPathBetweenPartitions(t *testing.T) {
	f := fabrictest.StartWith(t, "star:2", func(c *live.Config) {
		list, err := partitions.Parse("test", "a=1 : "+c.Fabric.Nodes[1].ID+"; b=2 : "+c.Fabric.Nodes[2].ID+";", c.Fabric, 0)
		if err != nil {
			t.Fatal(err)
		}
		c.Manager = &sm.Config{Partitions: list}
	})
	c, d := open(t, f, 0)
	_, peer := open(t, f, 1)
	active(t, d)
	active(t, peer)
	_, err := c.FindPath(fabric.Config(peer.Port.Info()).GIDs[0], service, 0)
	var named *reason.Error
	if !errors.As(err, &named) || named.Detail.Reason != reason.SAStatus {
		t.Errorf("%v", err)
	}
}

func TestPathWithoutManager(t *testing.T) {
	f := fabrictest.StartWith(t, "star:2", func(c *live.Config) { c.Manager = nil })
	c, _ := open(t, f, 0)
	_, err := c.FindPath(netip.MustParseAddr("fe80::1"), service, 0)
	wantReason(t, err, reason.Detail{Reason: reason.SANone, Expected: 1})
}

func answer(now time.Duration, s *subnet.Subnet, m *sm.Manager, question []byte) ([]byte, error) {
	var r control.Request
	if err := json.Unmarshal(question, &r); err != nil {
		return nil, err
	}
	_, err := control.Do(now, s, m, r)
	return nil, err
}

// A manager that has ended answers no more.
func TestPathFromAManagerThatHasEnded(t *testing.T) {
	f := fabrictest.StartWith(t, "star:2", func(c *live.Config) { c.Control = answer })
	c, d := open(t, f, 0)
	active(t, d)
	question, err := json.Marshal(control.Request{Verb: control.VerbManager, Args: []string{"off"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := attach.Do(t.Context(), "test", question); err != nil {
		t.Fatal(err)
	}
	c.wait = 5 * time.Millisecond
	_, err = c.FindPath(netip.MustParseAddr("fe80::1"), service, 0)
	wantReason(t, err, reason.Detail{Reason: reason.SATimeout, Expected: 20, Found: uint64(d.Port.Info().PortInfo.MasterSMLID)})
}
