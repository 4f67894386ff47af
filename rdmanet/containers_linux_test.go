package rdmanet_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"softrdma/internal/host/hosttest"
	"softrdma/rdmanet"
	"softrdma/verbs"
)

// containerEnvironment says what TestContainerProcess is: a server, or a client.
const containerEnvironment = "SOFTRDMA_TEST_CONTAINER"

// containerProtocol is the number of the protocol that it speaks.
const containerProtocol = "SOFTRDMA_TEST_CONTAINER_PROTOCOL"

const containerServer = "10.77.0.1"

// Two containers have no network between them, but a directory. The connection manager's
// messages take memory, as does all that follows.
func TestContainersConnectWithoutNetwork(t *testing.T) {
	for _, protocol := range []verbs.Protocol{verbs.RoCE, verbs.RoCEv1} {
		for _, mode := range []string{"auto", "require"} {
			t.Run(fmt.Sprint(protocol, " ", mode), func(t *testing.T) {
				dir := t.TempDir()
				server := startContainer(t, protocol, dir, mode, "server", containerServer)
				server.expect("ready")
				client := startContainer(t, protocol, dir, mode, "client", "10.77.0.2")
				client.expect("echo 1000000 bytes, same host")
				server.expect("served")
			})
		}
	}
}

// A container is a process in a network namespace of its own.
type container struct {
	t   *testing.T
	out *bufio.Scanner
}

func startContainer(t *testing.T, protocol verbs.Protocol, dir, mode, role, addr string) *container {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestContainerProcess$", "-test.v")
	cmd.Env = append(os.Environ(), containerEnvironment+"="+role, fmt.Sprintf("%s=%d", containerProtocol, protocol), "SOFTRDMA_HOST_DIR="+dir, "SOFTRDMA_SAME_HOST="+mode)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	hosttest.InNamespace(t, func(t *testing.T) {
		hosttest.Cable(t, "host0", addr+"/24")
		hosttest.Must(t, cmd.Start())
	})
	if t.Failed() || t.Skipped() {
		t.FailNow()
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return &container{t, bufio.NewScanner(out)}
}

// expect waits for a line.
func (c *container) expect(line string) {
	c.t.Helper()
	var all []string
	for c.out.Scan() {
		if c.out.Text() == line {
			return
		}
		all = append(all, c.out.Text())
	}
	c.t.Fatalf("expected %q, the process said %q", line, all)
}

// TestContainerProcess is the process of a container.
func TestContainerProcess(t *testing.T) {
	const size = 1_000_000
	at := net.JoinHostPort(containerServer, "7000")
	number, _ := strconv.Atoi(os.Getenv(containerProtocol))
	protocol := verbs.Protocol(number)
	switch os.Getenv(containerEnvironment) {
	case "server":
		l, err := (&rdmanet.ListenConfig{Protocol: protocol}).Listen(context.Background(), "rdma", at)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("ready")
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(c, io.LimitReader(c, size)); n != size || err != nil {
			t.Fatalf("%d bytes, %v", n, err)
		}
		_, _ = io.Copy(io.Discard, c)
		fmt.Println("served")
	case "client":
		d := rdmanet.Dialer{Timeout: 20 * time.Second, Protocol: protocol}
		c, err := d.Dial("rdma", at)
		if err != nil {
			t.Fatal(err)
		}
		written := make(chan error, 1)
		go func() {
			_, err := c.Write(make([]byte, size))
			written <- err
		}()
		n, err := io.CopyN(io.Discard, c, size)
		if err == nil {
			err = <-written
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("echo %d bytes, %s\n", n, c.(interface{ Path() verbs.Path }).Path())
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	default:
		t.Skip("not a test: others run it")
	}
}
