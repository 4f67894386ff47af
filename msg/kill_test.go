package msg_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"softrdma/internal/testenv"
	"softrdma/msg"
	"softrdma/verbs"
)

// peerDevice is the environment variable with the device of a process that is another worker.
const peerDevice = "SOFTRDMA_TEST_MSG_PEER"

func TestMain(m *testing.M) { testenv.Main(m, map[string]func(string) error{peerDevice: bePeer}) }

// bePeer is a worker with a region that receives nothing, until standard input ends.
func bePeer(name string) error {
	dev, err := openFree(name, verbs.Config{})
	if err != nil {
		return err
	}
	for dev.Protocol() == verbs.InfiniBand && dev.QueryPort().State != verbs.PortActive {
		time.Sleep(time.Millisecond)
	}
	w, err := msg.NewWorker(dev, msg.Config{Eager: 100, Unexpected: 4, Announced: 4, Active: 4, Stream: 1000})
	if err != nil {
		return err
	}
	w.Handle(idFirst, func(m *msg.Active) { m.Keep() }) // and never releases it
	region, err := w.Map(make([]byte, 5000), msg.AllowAll)
	if err != nil {
		return err
	}
	fmt.Printf("%x %x\n", w.Address(), region.Key())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// Each operation that waits for a killed process ends once, with ErrPeer, within the configured
// time. Operations that do not wait for a dead peer continue.
func TestKilledPeerEndsEachOperationOnce(t *testing.T) {
	const timeout = 2 * time.Second // the default is 10 s
	each(t, msg.Config{PeerTimeout: timeout}, func(t *testing.T, a, _ *msg.Worker) {
		p, address, _ := startPeer(t)
		e, err := a.Connect(within(t), address)
		if err != nil {
			t.Fatal(err)
		}
		calls := make(chan error, 100)
		var waiting []*msg.Request
		for range 10 { // eager, announced, and those beyond both limits
			waiting = append(waiting, e.Send(1, msg.Buffers{random(5)}, &msg.SendOptions{Sync: true}), e.Send(1, msg.Buffers{random(5000)}, nil), e.SendActive(idFirst, nil, msg.Buffers{random(5000)}, nil),
				e.SendStream(msg.Buffers{random(2000)}), e.ReceiveStream(msg.Buffers{make([]byte, 5)}, nil), e.ReceiveStream(msg.Buffers{make([]byte, 5)}, &msg.StreamOptions{Full: true}))
		}
		waiting = append(waiting, e.Flush(), a.Flush(), e.StartClose())
		for _, r := range waiting {
			r.Then(func(_ msg.Info, err error) { calls <- err })
		}
		other := a.Receive(msg.Buffers{make([]byte, 1)}, 1, msg.All)
		p.Kill()
		from := time.Now()
		for range waiting {
			select {
			case err := <-calls:
				if !errors.Is(err, msg.ErrPeer) {
					t.Errorf("%v, expected %v", err, msg.ErrPeer)
				}
			case <-within(t).Done():
				t.Fatal("an operation does not end")
			}
		}
		// A quarter of the time passes before the first probe, and the machine may be busy.
		if d := time.Since(from); d > 9*time.Second {
			t.Errorf("ended after %v, expected about %v", d, timeout)
		}
		if _, err := e.Send(1, nil, nil).Wait(within(t)); !errors.Is(err, msg.ErrPeer) || e.Err() == nil {
			t.Errorf("send after the failure: %v, endpoint %v", err, e.Err())
		}
		wait(t, a.Flush()) // no endpoint is left
		if len(calls) > 0 {
			t.Error("an operation ended twice")
		}
		if _, ended, _ := other.Poll(); ended {
			t.Error("a receive from any worker ended with one of them")
		}
	})
}

// Each access of a killed process ends once, with ErrPeer: those in flight, those that wait for them,
// and those that wait for a fence. So do flushes.
func TestKilledPeerEndsEachAccessOnce(t *testing.T) {
	each(t, msg.Config{PeerTimeout: 2 * time.Second}, func(t *testing.T, a, b *msg.Worker) {
		p, address, key := startPeer(t)
		e, err := a.Connect(within(t), address)
		if err != nil {
			t.Fatal(err)
		}
		m, err := e.Remote(key)
		if err != nil {
			t.Fatal(err)
		}
		other := connect(t, a, b)
		region, alive := share(t, b, other, make([]byte, 8), msg.AllowAll)
		wait(t, m.Get(0, msg.Buffers{make([]byte, 5000)}))
		p.Kill()
		calls := make(chan error, 1000)
		var old uint64
		n := 0
		start := func(list ...*msg.Request) {
			for _, r := range list {
				n++
				r.Then(func(_ msg.Info, err error) { calls <- err })
			}
		}
		buf, data := make([]byte, 5000), random(5000)
		for range 50 {
			start(m.Get(0, msg.Buffers{buf[:8]}), m.Get(0, msg.Buffers{buf}), m.Atomic64(msg.AtomicAdd, 0, 1, &old), m.Atomic32(msg.AtomicSwap, 8, 1, nil),
				m.Get(0, [][]byte{buf[:300], buf[300:600]}), e.Flush())
			// TCP takes the bytes of a put although they are not received.
			if puts := []*msg.Request{m.Put(0, msg.Buffers{data}), m.Put(0, [][]byte{data[:300], data[300:600]})}; a.Device().Protocol() != verbs.IWARP {
				start(puts...)
			}
			e.Fence()
			wait(t, alive.Put(0, msg.Buffers{data[:8]}))
		}
		flush := a.Flush()
		for range n {
			select {
			case err := <-calls:
				if !errors.Is(err, msg.ErrPeer) {
					t.Errorf("%v, expected %v", err, msg.ErrPeer)
				}
			case <-within(t).Done():
				t.Fatal("an access does not end")
			}
		}
		if len(calls) > 0 {
			t.Error("an access ended twice")
		}
		if _, err := flush.Wait(within(t)); err != nil && !errors.Is(err, msg.ErrPeer) {
			t.Errorf("flush of the worker: %v", err)
		}
		wait(t, a.Flush())
		if !bytes.Equal(peek(region.Bytes()), data[:8]) {
			t.Error("accesses of another peer did not go on")
		}
	})
}

// startPeer starts a process that is a worker on the third device of the path, and returns its address and the
// key of its region.
func startPeer(t *testing.T) (p *testenv.Process, address, key []byte) {
	t.Helper()
	var environment []string
	if mode := taken.config.SameHost; mode != "" {
		environment = append(environment, "SOFTRDMA_SAME_HOST="+string(mode))
	}
	p = testenv.Start(t, peerDevice, taken.devices[2], environment...)
	if _, err := fmt.Sscanf(p.Line(), "%x %x", &address, &key); err != nil {
		t.Fatal(err)
	}
	return p, address, key
}
