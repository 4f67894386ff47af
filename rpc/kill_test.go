package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"softrdma/internal/testenv"
	"softrdma/rpc"
	"softrdma/verbs"
)

// serverDevice is the environment variable with the device of a process that is a server.
const serverDevice = "SOFTRDMA_TEST_RPC_SERVER"

func TestMain(m *testing.M) { testenv.Main(m, map[string]func(string) error{serverDevice: beServer}) }

// beServer is a server whose method block never answers, until standard input ends.
func beServer(name string) error {
	dev, err := verbs.Open(name, verbs.Config{})
	if err != nil {
		return err
	}
	s, err := rpc.NewServer(rpc.ServerConfig{Device: dev})
	if err != nil {
		return err
	}
	err = s.Register("test", echo(rpc.RunAuto), rpc.Func("block", nil, func(context.Context, *rpc.Call) error { select {} }))
	if err != nil {
		return err
	}
	at, err := s.Listen(netip.AddrPortFrom(dev.Addr().Addr(), 0).String())
	if err != nil {
		return err
	}
	fmt.Println(at, dev.Addr().Port())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// startServer starts a process that is a server.
func startServer(t *testing.T, device string) (p *testenv.Process, address string, udp uint16) {
	t.Helper()
	p = testenv.Start(t, serverDevice, device)
	if _, err := fmt.Sscan(p.Line(), &address, &udp); err != nil {
		t.Fatal(err)
	}
	return p, address, udp
}

// The server's process is killed. Each call in flight ends once, with the error that says so, and
// closing does not wait for the dead peer.
func TestKilledServerEndsEachCallOnce(t *testing.T) {
	for name, prefix := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			device := prefix + "127.0.0.62"
			if prefix != "" {
				device = prefix + "127.0.0.63"
			}
			p, address, udp := startServer(t, device)
			c, err := rpc.Dial(within(t), address, rpc.ClientConfig{Device: openDevice(t, prefix), RemoteUDPPort: udp, Connections: 2,
				PeerTimeout: time.Second, ConnectTimeout: 5 * time.Second, ReconnectTimeout: 600 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Method("test/echo", nil).Bytes(within(t), make([]byte, 100_000), nil); err != nil {
				t.Fatal(err)
			}
			block := c.Method("test/block", nil)
			const calls = 10
			ended := make(chan error, 2*calls)
			for i := range calls {
				go func() {
					_, err := block.Bytes(within(t), make([]byte, i*1000), nil)
					ended <- err
				}()
			}
			for rpc.Busy(c) < calls {
				time.Sleep(time.Millisecond)
			}
			p.Kill()
			for range calls {
				if err := <-ended; !errors.Is(err, rpc.ErrOutcomeUnknown) && !errors.Is(err, rpc.ErrUnreachable) {
					t.Errorf("%v, expected %v", err, rpc.ErrOutcomeUnknown)
				}
			}
			if len(ended) > 0 {
				t.Error("a call ended twice")
			}
			from := time.Now()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if d := time.Since(from); d > 10*time.Second {
				t.Errorf("Close took %v", d)
			}
		})
	}
}
