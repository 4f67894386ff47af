package rpc_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"softrdma/rpc"
	"softrdma/verbs"
)

// serverDevice is the environment variable with the device of a process that is a server.
const serverDevice = "SOFTRDMA_TEST_RPC_SERVER"

func TestMain(m *testing.M) {
	if name := os.Getenv(serverDevice); name != "" {
		if err := beServer(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// beServer is a server whose method block never answers, until standard input ends.
func beServer(name string) error {
	dev, err := verbs.Open(name, verbs.Config{})
	if err != nil {
		return err
	}
	s := rpc.NewServer(rpc.ServerConfig{Device: dev})
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
func startServer(t *testing.T, device string) (kill func(), address string, udp uint16) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), serverDevice+"="+device)
	cmd.Stderr = os.Stderr
	if _, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	kill = func() {
		if !killed {
			killed = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
		}
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		_, err = fmt.Sscan(line, &address, &udp)
	}
	if err != nil {
		t.Fatal(err)
	}
	return kill, address, udp
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
			kill, address, udp := startServer(t, device)
			c, err := rpc.Dial(within(t), address, rpc.ClientConfig{Device: openDevice(t, prefix), RemoteUDPPort: udp, Connections: 2,
				PeerTimeout: time.Second, ConnectTimeout: 2 * time.Second, ReconnectTimeout: 600 * time.Millisecond})
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
			kill()
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
