package rdmanet

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"softrdma/rdmacm"
	"softrdma/rdmanet/internal/rsocket"
	"softrdma/verbs"
)

// A wire is a link without a connection manager.
type wire struct {
	qp    *verbs.QP
	peer  *wire
	ended atomic.Bool
	done  chan struct{}
	mute  bool // does not notify the peer when it ends
}

func (w *wire) Err() error {
	if w.ended.Load() {
		return rdmacm.ErrDisconnected
	}
	return nil
}

func (w *wire) Disconnect() error {
	if w.ended.Swap(true) {
		return nil
	}
	err := w.qp.ToErr()
	close(w.done)
	if !w.mute {
		_ = w.peer.Disconnect()
	}
	return err
}

func (w *wire) Done() <-chan struct{} { return w.done }
func (w *wire) Close() error          { return w.qp.Destroy() }

// testPrefix is the prefix of the names of the devices that openDevice opens with
// testTLS; see TestIWARPIsTheSame.
var (
	testPrefix string
	testTLS    *tls.Config
)

func address() string {
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
}

// openDevice opens a device on an unused loopback address.
func openDevice(t testing.TB, cfg verbs.Config) *verbs.Device {
	t.Helper()
	cfg.TLS = testTLS
	for {
		name := testPrefix + address()
		d, err := verbs.Open(name, cfg)
		if err == nil {
			return d
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// half returns one side of a pair before it is connected.
func half(t testing.TB, dev *verbs.Device, o Options) (*Conn, *wire) {
	t.Helper()
	c, err := newConn(dev, &o)
	if err != nil {
		t.Fatal(err)
	}
	qp, err := c.pd.CreateQP(c.qpConfig())
	if err != nil {
		t.Fatal(err)
	}
	return c, &wire{qp: qp, done: make(chan struct{})}
}

// join connects two halves.
func join(t testing.TB, a, b *Conn, wa, wb *wire) {
	t.Helper()
	joinWith(t, a, b, wa, wb, 17)
}

func joinWith(t testing.TB, a, b *Conn, wa, wb *wire, timeout uint8) {
	t.Helper()
	wa.peer, wb.peer = wb, wa
	ea, eb := wa.qp.Endpoint(), wb.qp.Endpoint()
	cfg := verbs.ConnectConfig{Timeout: timeout}
	if err := errors.Join(wa.qp.Connect(ea, eb, cfg), wb.qp.Connect(eb, ea, cfg), a.attach(wa.qp), b.attach(wb.qp)); err != nil {
		t.Fatal(err)
	}
	da, err := rsocket.ParseConnData(a.connData())
	if err != nil {
		t.Fatal(err)
	}
	db, err := rsocket.ParseConnData(b.connData())
	if err != nil {
		t.Fatal(err)
	}
	addrs := [2]net.Addr{net.TCPAddrFromAddrPort(wa.qp.Device().Addr()), net.TCPAddrFromAddrPort(wb.qp.Device().Addr())}
	a.start(&db, wa, addrs[0], addrs[1])
	b.start(&da, wb, addrs[1], addrs[0])
}

// pair returns two connected connections, each on its own device.
func pair(t testing.TB, o Options) (a, b *Conn) {
	t.Helper()
	a, b, _, _ = pairOn(t, openDevice(t, verbs.Config{}), openDevice(t, verbs.Config{}), o)
	return a, b
}

func pairOn(t testing.TB, da, db *verbs.Device, o Options) (a, b *Conn, wa, wb *wire) {
	t.Helper()
	t.Cleanup(func() {
		da.Close()
		db.Close()
	})
	a, wa = half(t, da, o)
	b, wb = half(t, db, o)
	join(t, a, b, wa, wb)
	t.Cleanup(func() {
		a.Close()
		b.Close()
	})
	return a, b, wa, wb
}

func soon() time.Time { return time.Now().Add(20 * time.Second) }
