package rpc_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"softrdma/rpc"
	"softrdma/verbs"
)

// A railWorld is a server and a client with two devices each.
type railWorld struct {
	t                *testing.T
	srv              *rpc.Server
	ledger           ledger
	servers, clients []*verbs.Device
	addresses        []string
}

func serveRails(t *testing.T, prefixes ...string) *railWorld {
	t.Helper()
	srv, err := rpc.NewServer(rpc.ServerConfig{Rails: true})
	if err != nil {
		t.Fatal(err)
	}
	w := &railWorld{t: t, srv: srv}
	t.Cleanup(func() {
		if err := w.srv.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.srv.Register("test", w.ledger.record(rpc.RunAuto)); err != nil {
		t.Fatal(err)
	}
	for _, p := range prefixes {
		w.servers, w.clients = append(w.servers, openDevice(t, p)), append(w.clients, openDevice(t, p))
	}
	for _, d := range w.servers {
		w.addresses = append(w.addresses, w.listen(d, netip.AddrPortFrom(d.Addr().Addr(), 0)))
	}
	return w
}

func (w *railWorld) listen(d *verbs.Device, at netip.AddrPort) string {
	w.t.Helper()
	address, err := w.srv.ListenOn(d, at.String())
	if err != nil {
		w.t.Fatal(err)
	}
	return address.String()
}

func (w *railWorld) dial(address string) *rpc.Client {
	w.t.Helper()
	c, err := rpc.Dial(within(w.t), address, rpc.ClientConfig{Device: w.clients[0], Rails: w.clients[1:], ConnectTimeout: time.Second})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return c
}

func awaitDevices(t *testing.T, c *rpc.Client, n int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); rpc.Devices(c) != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("connections on %d devices, expected %d", rpc.Devices(c), n)
		}
	}
}

// calls makes calls from several goroutines; half is called once when half of them are done.
func (w *railWorld) calls(c *rpc.Client, first uint64, half func()) {
	w.t.Helper()
	const each, goroutines = 40, 6
	m := c.Method("test/record", nil)
	var once sync.Once
	var all sync.WaitGroup
	for g := range uint64(goroutines) {
		all.Go(func() {
			for i := range uint64(each) {
				body := random(8 + int(i%4)*3000)
				id := first + g*each + i
				binary.BigEndian.PutUint64(body, id)
				got, err := m.Bytes(within(w.t), body, nil)
				if err != nil || !bytes.Equal(got, body) {
					w.t.Errorf("call %d: %d bytes, %v", id, len(got), err)
					return
				}
				if i == each/2 {
					once.Do(half)
				}
			}
		})
	}
	all.Wait()
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	for id := first; id < first+each*goroutines; id++ {
		if n := w.ledger.runs[id]; n != 1 {
			w.t.Errorf("call %d was carried out %d times", id, n)
		}
	}
}

// One of two devices closes, at either end, while calls with short and long bodies are made. Each is
// executed once, and gets its answer. A device at the old address is used again.
func TestSessionGoesOnWhenADeviceCloses(t *testing.T) {
	for name, prefixes := range map[string][]string{"RoCE": {"", ""}, "iWARP": {"iwarp:", "iwarp:"}, "RoCE and iWARP": {"", "iwarp:"}} {
		t.Run(name, func(t *testing.T) {
			for i := range prefixes {
				w := serveRails(t, prefixes...)
				c := w.dial(strings.Join(w.addresses, ","))
				if n := rpc.Devices(c); n != 2 {
					t.Fatalf("connections on %d devices, expected 2", n)
				}
				at := w.servers[i].Addr()
				w.calls(c, 0, func() { _ = w.servers[i].Close() })
				awaitDevices(t, c, 1)
				again, err := verbs.Open(prefixes[i]+at.Addr().String(), verbs.Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer again.Close()
				w.listen(again, netip.MustParseAddrPort(w.addresses[i]))
				awaitDevices(t, c, 2)
				w.calls(c, 1000, func() { _ = w.clients[1-i].Close() })
				awaitDevices(t, c, 1)
				w.calls(c, 2000, func() {})
				if n := rpc.Sessions(w.srv); n != 1 {
					t.Errorf("%d sessions, expected 1", n)
				}
			}
		})
	}
}

// A client connects if one of the addresses answers, whichever that is.
func TestDialNeedsOneOfTheAddresses(t *testing.T) {
	w := serveRails(t, "", "")
	nobody := netip.AddrPortFrom(w.servers[1].Addr().Addr(), 9).String()
	for _, list := range []string{w.addresses[0] + "," + nobody, nobody + "," + w.addresses[0]} {
		c := w.dial(list)
		w.calls(c, 0, func() {})
		if n := rpc.Devices(c); n != 1 {
			t.Errorf("connections on %d devices, expected 1", n)
		}
		clear(w.ledger.runs)
	}
	if _, err := rpc.Dial(within(t), nobody+","+nobody, rpc.ClientConfig{Device: w.clients[0]}); !errors.Is(err, rpc.ErrUnreachable) {
		t.Errorf("%v, expected %v", err, rpc.ErrUnreachable)
	}
	if _, err := rpc.Dial(within(t), strings.Repeat(nobody+",", rpc.MaxRails)+nobody, rpc.ClientConfig{}); err == nil {
		t.Error("too many addresses were taken")
	}
}

// Addresses of two servers, and those of a server whose devices have sessions of their own, are named.
func TestAddressesOfDifferentServersAreRefused(t *testing.T) {
	a, b := serveRails(t, ""), serveRails(t, "")
	own := serve(t, "", rpc.ServerConfig{})
	other, err := own.srv.ListenOn(a.servers[0], netip.AddrPortFrom(a.servers[0].Addr().Addr(), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{a.addresses[0] + "," + b.addresses[0], own.address.String() + "," + other.String()} {
		c, err := rpc.Dial(within(t), list, rpc.ClientConfig{Device: a.clients[0], Rails: b.clients})
		if !errors.Is(err, rpc.ErrRails) {
			t.Errorf("%s: %v, expected %v", list, err, rpc.ErrRails)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}
