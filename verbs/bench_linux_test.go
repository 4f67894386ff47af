package verbs_test

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"softrdma/verbs"
)

// The same path by RDMA and by the kernel, between two processes, alternately. The second
// process is another run of this test binary.
//
//	go test ./verbs -run '^$' -bench AgainstKernel -benchtime 1x

const (
	benchPeerEnv = "SOFTRDMA_BENCH_PEER"

	// Many short rounds, so that some are undisturbed on a machine with other load.
	kernelRounds    = 31
	kernelStream    = 64   // messages of 1 MiB
	kernelPingPongs = 1000 // round trips of 8 bytes
)

// A benchOrder is a message from the first process to the second, and its answer.
type benchOrder struct {
	Do       string
	Count    int
	Endpoint verbs.Endpoint
	Memory   benchMemory
	Port     int
}

// TestBenchmarkPeer is the second process of BenchmarkAgainstKernel.
func TestBenchmarkPeer(t *testing.T) {
	addr := os.Getenv(benchPeerEnv)
	if addr == "" {
		t.Skip("the second process of BenchmarkAgainstKernel, which starts it")
	}
	e := newBenchEnd(t, addr, verbs.Config{NoLoopback: true})
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	k := newKernelEnd(t, addr)
	for {
		var o benchOrder
		if in.Decode(&o) != nil {
			return
		}
		switch o.Do {
		case "connect":
			e.connect(t, o.Endpoint, o.Memory)
			k.connect(t, o.Endpoint.GID.Addr().String(), o.Port)
			out.Encode(benchOrder{Endpoint: e.local, Memory: e.memory(), Port: k.port})
		case "ping-pong":
			clear(e.mem[benchSlot : benchSlot+8])
			out.Encode(o)
			e.pingPong(t, o.Count, false)
		case "udp":
			out.Encode(o)
			k.pingPongUDP(t, o.Count, false)
		case "tcp-ping-pong":
			conn := k.tcp(t, out)
			pingPongTCP(t, conn, o.Count, false)
			conn.Close()
		case "tcp":
			conn := k.tcp(t, out)
			for range o.Count {
				if _, err := io.ReadFull(conn, e.mem[benchSlot:]); err != nil {
					t.Fatal(err)
				}
			}
			conn.Write([]byte{1})
			conn.Close()
		}
	}
}

// A kernelEnd is one end of the kernel's protocols.
type kernelEnd struct {
	addr string
	udp  int
	port int
}

func newKernelEnd(tb testing.TB, addr string) *kernelEnd {
	tb.Helper()
	k := &kernelEnd{addr: addr}
	var err error
	if k.udp, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { unix.Close(k.udp) })
	if err := unix.Bind(k.udp, sockaddr(addr, 0)); err != nil {
		tb.Fatal(err)
	}
	sa, err := unix.Getsockname(k.udp)
	if err != nil {
		tb.Fatal(err)
	}
	k.port = sa.(*unix.SockaddrInet4).Port
	return k
}

func sockaddr(addr string, port int) *unix.SockaddrInet4 {
	return &unix.SockaddrInet4{Addr: [4]byte(net.ParseIP(addr).To4()), Port: port}
}

func (k *kernelEnd) connect(tb testing.TB, addr string, port int) {
	if err := unix.Connect(k.udp, sockaddr(addr, port)); err != nil {
		tb.Fatal(err)
	}
}

// pingPongUDP sends 8 bytes back and forth with as few system calls as possible.
func (k *kernelEnd) pingPongUDP(tb testing.TB, count int, first bool) {
	pingPongRaw(tb, k.udp, count, first)
}

func pingPongRaw(tb testing.TB, fd, count int, first bool) {
	var b [8]byte
	for range count {
		if first {
			if _, err := unix.Write(fd, b[:]); err != nil {
				tb.Fatal(err)
			}
		}
		for {
			n, err := unix.Read(fd, b[:])
			if n == len(b) {
				break
			}
			if err != unix.EAGAIN && err != unix.EINTR {
				tb.Fatalf("read: %d bytes, %v", n, err)
			}
		}
		if !first {
			if _, err := unix.Write(fd, b[:]); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// pingPongTCP does the same over a connection.
func pingPongTCP(tb testing.TB, conn net.Conn, count int, first bool) {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		tb.Fatal(err)
	}
	raw.Control(func(fd uintptr) { pingPongRaw(tb, int(fd), count, first) })
}

func cubic(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic") })
}

// tcp listens, tells the first process where, and accepts its connection.
func (k *kernelEnd) tcp(tb testing.TB, out *json.Encoder) net.Conn {
	lc := net.ListenConfig{Control: cubic}
	l, err := lc.Listen(tb.Context(), "tcp", net.JoinHostPort(k.addr, "0"))
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	out.Encode(benchOrder{Port: l.Addr().(*net.TCPAddr).Port})
	conn, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	return conn
}

// A benchPeer is the first process's view of the second.
type benchPeer struct {
	in   *json.Encoder
	out  *json.Decoder
	addr string
}

func startBenchPeer(b *testing.B) *benchPeer {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	p := &benchPeer{addr: benchAddr()}
	cmd := exec.Command(self, "-test.run=^TestBenchmarkPeer$")
	cmd.Env = append(os.Environ(), benchPeerEnv+"="+p.addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	p.in, p.out = json.NewEncoder(in), json.NewDecoder(out)
	return p
}

func (p *benchPeer) ask(b *testing.B, o benchOrder) (answer benchOrder) {
	b.Helper()
	if err := p.in.Encode(o); err != nil {
		b.Fatal(err)
	}
	if err := p.out.Decode(&answer); err != nil {
		b.Fatalf("second process: %v", err)
	}
	return answer
}

func (p *benchPeer) dial(b *testing.B, o benchOrder) net.Conn {
	b.Helper()
	a := p.ask(b, o)
	d := net.Dialer{Control: cubic}
	conn, err := d.DialContext(b.Context(), "tcp", (&net.TCPAddr{IP: net.ParseIP(p.addr), Port: a.Port}).String())
	if err != nil {
		b.Fatal(err)
	}
	return conn
}

// BenchmarkAgainstKernel reports medians of interleaved rounds, and ratios of the best rounds:
// the rate of 1 MiB WRITEs relative to one TCP connection, and half the round trip of 8-byte
// WRITEs relative to datagrams, with both ends polling.
func BenchmarkAgainstKernel(b *testing.B) {
	p := startBenchPeer(b)
	addr := benchAddr()
	e, k := newBenchEnd(b, addr, verbs.Config{NoLoopback: true}), newKernelEnd(b, addr)
	a := p.ask(b, benchOrder{Do: "connect", Endpoint: e.local, Memory: e.memory(), Port: k.port})
	e.connect(b, a.Endpoint, a.Memory)
	k.connect(b, p.addr, a.Port)

	timed := map[string][]float64{}
	measure := func(name string, f func()) {
		start := time.Now()
		f()
		timed[name] = append(timed[name], time.Since(start).Seconds())
	}
	for range kernelRounds * b.N {
		measure("write", func() { e.stream(b, kernelStream) })
		conn := p.dial(b, benchOrder{Do: "tcp", Count: kernelStream})
		measure("tcp", func() {
			for range kernelStream {
				if _, err := conn.Write(e.mem[:benchSlot]); err != nil {
					b.Fatal(err)
				}
			}
			io.ReadFull(conn, make([]byte, 1))
		})
		conn.Close()
		clear(e.mem[benchSlot : benchSlot+8])
		p.ask(b, benchOrder{Do: "ping-pong", Count: kernelPingPongs})
		measure("write-8B", func() { e.pingPong(b, kernelPingPongs, true) })
		p.ask(b, benchOrder{Do: "udp", Count: kernelPingPongs})
		measure("udp-8B", func() { k.pingPongUDP(b, kernelPingPongs, true) })
		conn = p.dial(b, benchOrder{Do: "tcp-ping-pong", Count: kernelPingPongs})
		measure("tcp-8B", func() { pingPongTCP(b, conn, kernelPingPongs, true) })
		conn.Close()
	}
	for _, t := range timed {
		slices.Sort(t)
	}
	median := func(name string) float64 { return timed[name][len(timed[name])/2] }
	best := func(name string) float64 { return timed[name][0] }
	for _, name := range []string{"write", "tcp"} {
		b.ReportMetric(kernelStream*benchSlot/median(name)/1e9, name+"-GB/s")
	}
	for _, name := range []string{"write-8B", "udp-8B", "tcp-8B"} {
		b.ReportMetric(median(name)/kernelPingPongs/2*1e6, name+"-µs")
	}
	b.ReportMetric(median("tcp")/median("write"), "write/tcp")
	b.ReportMetric(best("tcp")/best("write"), "best-write/tcp")
	b.ReportMetric(median("write-8B")/median("udp-8B"), "write8B/udp8B")
	b.ReportMetric(best("write-8B")/best("udp-8B"), "best-write8B/udp8B")
	b.ReportMetric(0, "ns/op")
}
