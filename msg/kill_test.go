package msg_test

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"softrdma/msg"
	"softrdma/verbs"
)

// peerDevice is the environment variable with the device of a process that is another worker.
const peerDevice = "SOFTRDMA_TEST_MSG_PEER"

func TestMain(m *testing.M) {
	if name := os.Getenv(peerDevice); name != "" {
		if err := bePeer(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// bePeer is a worker that receives nothing, until standard input ends.
func bePeer(name string) error {
	dev, err := verbs.Open(name, verbs.Config{})
	if err != nil {
		return err
	}
	w, err := msg.NewWorker(dev, msg.Config{Eager: 100, Unexpected: 4, Announced: 4})
	if err != nil {
		return err
	}
	fmt.Println(hex.EncodeToString(w.Address()))
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// Each operation that waits for a killed process ends once, with ErrPeer, within the configured
// time. Operations that wait for nobody go on.
func TestKilledPeerEndsEachOperationOnce(t *testing.T) {
	const timeout = 3 * time.Second
	each(t, msg.Config{PeerTimeout: timeout}, func(t *testing.T, a, _ *msg.Worker) {
		kill, address := startPeer(t, a.Device().Protocol())
		e, err := a.Connect(within(t), address)
		if err != nil {
			t.Fatal(err)
		}
		calls := make(chan error, 100)
		var waiting []*msg.Request
		for range 10 { // eager, announced, and those beyond both limits
			waiting = append(waiting, e.SendSync(1, random(5)), e.Send(1, random(5000)))
		}
		for _, r := range waiting {
			r.Then(func(_ msg.Info, err error) { calls <- err })
		}
		other := a.Receive(make([]byte, 1), 1, msg.All)
		kill()
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
		if d := time.Since(from); d > 2*timeout {
			t.Errorf("ended after %v, expected about %v", d, timeout)
		}
		if _, err := e.Send(1, nil).Wait(within(t)); !errors.Is(err, msg.ErrPeer) || e.Err() == nil {
			t.Errorf("send after the failure: %v, endpoint %v", err, e.Err())
		}
		if len(calls) > 0 {
			t.Error("an operation ended twice")
		}
		if _, ended, _ := other.Poll(); ended {
			t.Error("a receive from any worker ended with one of them")
		}
	})
}

// startPeer starts a process that is a worker, and returns its address.
func startPeer(t *testing.T, p verbs.Protocol) (kill func(), address []byte) {
	t.Helper()
	name := "127.0.0.23"
	if p == verbs.IWARP {
		name = "iwarp:" + name
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), peerDevice+"="+name)
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
			_ = cmd.Wait()
		}
	}
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if address, err = hex.DecodeString(line[:len(line)-1]); err != nil {
		t.Fatal(err)
	}
	return kill, address
}
