package verbs_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"softrdma/verbs"
)

// hostPeerEnvironment holds the peerConfig of a peer in another process.
const hostPeerEnvironment = "SOFTRDMA_TEST_HOST_PEER"

// A peerConfig configures a peer in another process.
type peerConfig struct {
	Addr    string
	Lanes   int
	Size    int
	QPs     int
	Type    verbs.QPType
	Shared  bool // AllocMemory
	Mode    verbs.SameHost
	Report  bool   // print a line for each message
	Capture string // file that the command "capture" writes

	// Cable is an interface that the peer moves into its own network namespace, with the
	// address CableAddr.
	Cable, CableAddr string
}

// A peerMemory is a peer's description of itself.
type peerMemory struct {
	Ends []verbs.Endpoint
	Addr uint64
	RKey uint32
}

// Messages to a peer have peerSlot bytes. They are in the second half of its memory.
const (
	peerSlot  = 64 << 10
	peerSlots = 8
	peerQKey  = 0x77
)

// A hostPeer is a peer in another process. It is passive: it posts receives and checks
// received messages, and its memory is the target of WRITEs and READs.
type hostPeer struct {
	cfg  peerConfig
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	info peerMemory
}

// startHostPeer starts a peer, which is killed when the test ends, and waits until it is
// ready.
func startHostPeer(t testing.TB, cfg peerConfig) *hostPeer {
	t.Helper()
	p := launchHostPeer(t, cfg)
	p.meet(t)
	return p
}

// launchHostPeer starts a peer that may fail to open its device.
func launchHostPeer(t testing.TB, cfg peerConfig) *hostPeer {
	t.Helper()
	if *overEthernet || *overFabric {
		t.Skip("SKIPPED with -roce1 and -infiniband: the peer's device speaks RoCE v2")
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &hostPeer{cfg: cfg, cmd: exec.Command("/proc/self/exe", "-test.run=^TestHostPeerProcess$", "-test.v")}
	p.cmd.Env = append(os.Environ(), hostPeerEnvironment+"="+string(text))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if cfg.Cable != "" {
		p.cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		p.in, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	p.out = bufio.NewScanner(out)
	if cfg.Cable != "" {
		l, err := netlink.LinkByName(cfg.Cable)
		if err == nil {
			err = netlink.LinkSetNsPid(l, p.cmd.Process.Pid)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// meet reads the peer's description of itself.
func (p *hostPeer) meet(t testing.TB) {
	t.Helper()
	p.info = peerMemory{}
	if err := json.Unmarshal([]byte(p.line(t, "peer ")), &p.info); err != nil {
		t.Fatal(err)
	}
}

// line returns the rest of the peer's next line that begins with a word.
func (p *hostPeer) line(t testing.TB, word string) string {
	t.Helper()
	for p.out.Scan() {
		if rest, ok := strings.CutPrefix(p.out.Text(), word); ok {
			return rest
		}
		if s := p.out.Text(); strings.HasPrefix(s, "wrong") || strings.Contains(s, "FAIL") || strings.Contains(s, "_test.go:") {
			t.Errorf("the peer %s says: %s", p.cfg.Addr, s)
		}
	}
	t.Fatalf("the peer %s ended before it said %q", p.cfg.Addr, word)
	return ""
}

// tell sends a command and waits for the answer.
func (p *hostPeer) tell(t testing.TB, command, answer string) string {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		t.Fatal(err)
	}
	return p.line(t, answer)
}

func (p *hostPeer) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

func (p *hostPeer) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	}
}

// reset moves the peer's queue pairs to RESET. They can join again.
func (p *hostPeer) reset(t testing.TB) {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, "reset"); err != nil {
		t.Fatal(err)
	}
	p.meet(t)
}

// end makes the peer close its device and exit.
func (p *hostPeer) end(t testing.TB) {
	t.Helper()
	p.tell(t, "end", "ended")
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the peer: %v", err)
	}
}

// join connects queue pairs of this process to those of the peer, in order.
func (p *hostPeer) join(t testing.TB, cfg verbs.ConnectConfig, sides ...*side) {
	t.Helper()
	var own []verbs.Endpoint
	for i, s := range sides {
		own = append(own, s.qp.Endpoint())
		if p.cfg.Type == verbs.UD {
			s.readyUD(t, peerQKey)
		} else if err := s.qp.Connect(own[i], p.info.Ends[i], cfg); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(own)
	if err != nil {
		t.Fatal(err)
	}
	p.tell(t, "join "+string(text), "joined")
}

// to returns a request for n bytes at the same offset of both buffers.
func (p *hostPeer) to(s *side, op verbs.Op, off, n int) verbs.SendWR {
	w := verbs.SendWR{Op: op, Flags: verbs.Signaled, SGL: []verbs.SGE{s.mr.SGE(off, n)}}
	if op != verbs.OpSend {
		w.RemoteAddr, w.RKey = p.info.Addr+uint64(off), p.info.RKey
	}
	return w
}

// putMessage makes a message that a peer can check: a seed, and bytes computed from it.
func putMessage(b []byte, seed uint64) {
	fill(b[8:], seed)
	for i := range 8 {
		b[i] = byte(seed >> (8 * i))
	}
}

func goodMessage(b []byte) bool {
	if len(b) < 8 {
		return false
	}
	var seed uint64
	for i := range 8 {
		seed |= uint64(b[i]) << (8 * i)
	}
	want := make([]byte, len(b))
	putMessage(want, seed)
	return bytes.Equal(b, want)
}

// TestHostPeerProcess is the peer of startHostPeer.
func TestHostPeerProcess(t *testing.T) {
	text := os.Getenv(hostPeerEnvironment)
	if text == "" {
		t.Skip("not a test: others run it")
	}
	w := peerProcess{}
	if err := json.Unmarshal([]byte(text), &w.cfg); err != nil {
		t.Fatal(err)
	}
	w.open(t)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		command, rest, _ := strings.Cut(in.Text(), " ")
		w.do(t, command, rest)
		if command == "end" {
			return
		}
	}
}

// A peerProcess is the state of a peer in its own process.
type peerProcess struct {
	cfg     peerConfig
	s       *side // with the first queue pair
	qps     []*verbs.QP
	file    *os.File
	capture *verbs.Capture
	stop    context.CancelFunc
	stopped chan struct{}
}

func (w *peerProcess) open(t *testing.T) {
	if w.cfg.Cable != "" {
		w.plug(t)
	}
	dev := openDevice(t, w.cfg.Addr, verbs.Config{SameHost: w.cfg.Mode, NoLoopback: true, Lanes: w.cfg.Lanes})
	mem := make([]byte, w.cfg.Size)
	if w.cfg.Shared {
		mem = alloc(t, w.cfg.Size, verbs.AllocConfig{})
	}
	w.s = onType(t, dev, mem, w.cfg.Type)
	w.qps = []*verbs.QP{w.s.qp}
	for len(w.qps) < w.cfg.QPs {
		qp, err := w.s.pd.CreateQP(verbs.QPConfig{Type: w.cfg.Type, SendCQ: w.s.cq, MaxInline: 64})
		if err != nil {
			t.Fatal(err)
		}
		w.qps = append(w.qps, qp)
	}
	w.introduce(t)
}

// plug sets the peer's interface up once it exists.
func (w *peerProcess) plug(t *testing.T) {
	a, err := netlink.ParseAddr(w.cfg.CableAddr)
	if err != nil {
		t.Fatal(err)
	}
	var l netlink.Link
	eventually(t, "interface "+w.cfg.Cable, func() bool {
		l, err = netlink.LinkByName(w.cfg.Cable)
		return err == nil
	})
	if err := errors.Join(netlink.AddrAdd(l, a), netlink.LinkSetUp(l)); err != nil {
		t.Fatal(err)
	}
	eventually(t, w.cfg.Cable+" up", func() bool {
		l, err = netlink.LinkByName(w.cfg.Cable)
		return err == nil && l.Attrs().OperState == netlink.OperUp
	})
}

// introduce sends the peer's description to the other side.
func (w *peerProcess) introduce(t *testing.T) {
	info := peerMemory{Addr: w.s.mr.Addr(), RKey: w.s.mr.RKey()}
	for _, q := range w.qps {
		info.Ends = append(info.Ends, q.Endpoint())
	}
	out, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("peer %s\n", out)
}

func (w *peerProcess) do(t *testing.T, command, rest string) {
	switch command {
	case "join":
		w.join(t, rest)
		fmt.Println("joined")
	case "reset":
		w.reset(t)
		w.introduce(t)
	case "capture":
		var err error
		if w.file, err = os.Create(w.cfg.Capture); err == nil {
			w.capture, err = w.s.dev.Capture(w.file)
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("captures")
	case "scribble":
		scribble()
	case "end":
		if w.capture != nil {
			if err := w.capture.Close(); err != nil {
				t.Error(err)
			}
			_ = w.file.Close()
		}
		w.stop()
		<-w.stopped
		if err := w.s.dev.Close(); err != nil {
			t.Error(err)
		}
		fmt.Println("ended")
	}
}

// join connects the queue pairs, and starts to check messages.
func (w *peerProcess) join(t *testing.T, rest string) {
	var remote []verbs.Endpoint
	if err := json.Unmarshal([]byte(rest), &remote); err != nil {
		t.Fatal(err)
	}
	for i, e := range remote {
		if w.cfg.Type == verbs.UD {
			(&side{qp: w.qps[i]}).readyUD(t, peerQKey)
		} else if err := w.qps[i].Connect(w.qps[i].Endpoint(), e, verbs.ConnectConfig{Timeout: 19}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range peerSlots {
		w.receive(t, w.qps[0], i)
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	w.stopped = make(chan struct{})
	go w.check(t, ctx)
}

func (w *peerProcess) receive(t *testing.T, q *verbs.QP, slot int) {
	if w.cfg.Size < 2*peerSlots*peerSlot {
		return // messages without room cannot be checked
	}
	at := w.cfg.Size/2 + slot*peerSlot
	if err := q.PostRecv(verbs.RecvWR{WRID: uint64(slot), SGL: []verbs.SGE{w.s.mr.SGE(at, peerSlot)}}); err != nil {
		t.Error(err)
	}
}

// check checks each message, and posts its receive again.
func (w *peerProcess) check(t *testing.T, ctx context.Context) {
	defer close(w.stopped)
	for {
		var wcs [16]verbs.WC
		n, err := w.s.cq.Poll(wcs[:])
		if err != nil {
			return
		}
		for i := range wcs[:n] {
			if wcs[i].Status != verbs.Success {
				continue // flushed
			}
			at := w.cfg.Size/2 + int(wcs[i].WRID)*peerSlot
			b := w.s.buf[at : at+int(wcs[i].ByteLen)]
			if w.cfg.Type == verbs.UD {
				b = b[grh:]
			}
			if !goodMessage(b) {
				fmt.Printf("wrong message of %d bytes\n", len(b))
			}
			w.receive(t, w.qps[0], int(wcs[i].WRID))
			if w.cfg.Report {
				fmt.Println("message", len(b))
			}
		}
		if n == 0 && w.s.cq.Wait(ctx) != nil {
			return
		}
	}
}

// reset moves the queue pairs to RESET, for join.
func (w *peerProcess) reset(t *testing.T) {
	w.stop()
	<-w.stopped
	for _, q := range w.qps {
		if err := q.ToReset(); err != nil {
			t.Fatal(err)
		}
	}
	// What came after stop still completes. The next round would post its receives twice.
	var wcs [16]verbs.WC
	for n := 1; n > 0; {
		var err error
		if n, err = w.s.cq.Poll(wcs[:]); err != nil {
			t.Fatal(err)
		}
	}
}

// onType is on for a queue pair of another type.
func onType(t testing.TB, dev *verbs.Device, mem []byte, typ verbs.QPType) *side {
	t.Helper()
	s := on(t, dev, mem)
	if typ == verbs.RC {
		return s
	}
	err := s.qp.Destroy()
	if err == nil {
		s.qp, err = s.pd.CreateQP(verbs.QPConfig{Type: typ, SendCQ: s.cq, MaxInline: 64})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// eventually waits until f is true.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	if !comes(t, what, f) {
		t.FailNow()
	}
}

// comes waits until f is true and reports whether it was. Any goroutine may call it.
func comes(t testing.TB, what string, f func() bool) bool {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("waited for a minute: %s", what)
			return false
		}
	}
	return true
}
