package target_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"softrdma/rdmacm"
	"softrdma/storage/block"
	"softrdma/storage/nvmeof/controller"
	"softrdma/storage/nvmeof/host"
	"softrdma/storage/nvmeof/target"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/logpage"
	"softrdma/storage/nvmeof/wire/status"
	"softrdma/verbs"
)

const (
	nqn     = "nqn.2024-01.org.example:disk"
	allowed = "nqn.2024-01.org.example:host"
	size    = 4 << 20
)

// TestMain opens the runtime's network poller, whose descriptors are kept, before anything counts them.
func TestMain(m *testing.M) {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	c.Close()
	os.Exit(m.Run())
}

func ip(n int) string { return fmt.Sprintf("127.12.%d.%d", os.Getpid()%256, n) }

// A rig is a target and a host's device in one process.
type rig struct {
	t      *testing.T
	target *target.Target
	sub    *controller.Subsystem
	addr   string
	dialer rdmacm.Dialer
	ctx    context.Context
	device *verbs.Device // the target's

	mu     sync.Mutex
	events []target.Event
}

func open(t *testing.T, name string) *verbs.Device {
	t.Helper()
	d, err := verbs.Open(name, verbs.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func newRig(t *testing.T, prefix string, limits controller.Limits, hosts ...string) *rig {
	t.Helper()
	r := &rig{t: t, device: open(t, prefix+ip(1)), dialer: rdmacm.Dialer{Device: open(t, prefix+ip(2))}}
	var err error
	r.target, err = target.New(target.Config{Limits: limits, Events: func(e target.Event) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = append(r.events, e)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.target.Close(); err != nil {
			t.Error(err)
		}
	})
	r.sub = &controller.Subsystem{NQN: nqn, Hosts: hosts}
	if err := r.target.AddSubsystem(r.sub); err != nil {
		t.Fatal(err)
	}
	memory, err := block.NewMemory(size, 512)
	if err != nil {
		t.Fatal(err)
	}
	file, err := block.OpenFile(filepath.Join(t.TempDir(), "disk"), block.FileConfig{Size: size, BlockSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	for id, b := range map[uint32]block.Backend{1: memory, 2: file} {
		if err := r.target.AddNamespace(r.sub, id, b, false); err != nil {
			t.Fatal(err)
		}
	}
	at, err := r.target.Listen(ip(1)+":0", rdmacm.ListenConfig{Device: r.device})
	if err != nil {
		t.Fatal(err)
	}
	r.addr = at.String()
	return r
}

// context returns the test's context, which ends when the test hangs.
func (r *rig) context() context.Context {
	if r.ctx == nil {
		var cancel context.CancelFunc
		r.ctx, cancel = context.WithTimeout(r.t.Context(), 2*time.Minute)
		r.t.Cleanup(cancel)
	}
	return r.ctx
}

func (r *rig) dial(cfg host.Config) *host.Controller {
	r.t.Helper()
	cfg.Dialer = r.dialer
	if cfg.Subsystem == "" {
		cfg.Subsystem = nqn
	}
	c, err := host.Dial(r.context(), r.addr, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) namespace(c *host.Controller, id uint32) *host.Namespace {
	r.t.Helper()
	n, err := c.Namespace(r.context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// closed closes a controller, and waits until the target has none.
func (r *rig) closed(c *host.Controller) {
	r.t.Helper()
	if err := c.Close(); err != nil {
		r.t.Error(err)
	}
	r.idle()
}

func (r *rig) idle() {
	r.t.Helper()
	for ctx := r.context(); ; runtime.Gosched() {
		if n := r.target.Counts(); n.Queues == 0 && n.Controllers == 0 {
			return
		}
		if ctx.Err() != nil {
			r.t.Fatalf("left: %+v", r.target.Counts())
		}
	}
}

func TestHostWritesAndReads(t *testing.T) {
	for _, prefix := range []string{"", "iwarp:"} {
		t.Run("protocol "+prefix, func(t *testing.T) {
			r := newRig(t, prefix, controller.Limits{})
			c := r.dial(host.Config{Queues: 3, QueueSize: 8})
			ids, err := c.Namespaces(r.context())
			if err != nil || !slices.Equal(ids, []uint32{1, 2}) {
				t.Fatal(ids, err)
			}
			for _, id := range ids {
				n := r.namespace(c, id)
				if n.Size() != size || n.BlockSize() != []int{0, 512, 4096}[id] {
					t.Errorf("size %d, block %d", n.Size(), n.BlockSize())
				}
				exercise(t, r.context(), n)
			}
			r.closed(c)
			if counts := r.target.Counts(); counts.BytesFromHosts == 0 || counts.BytesToHosts == 0 || counts.Refused != 2 {
				t.Errorf("counts %+v, events %v", counts, r.events)
			}
		})
	}
}

// exercise writes, reads, compares and deallocates parts of a namespace.
func exercise(t *testing.T, ctx context.Context, n *host.Namespace) {
	t.Helper()
	want := make([]byte, size)
	random := rand.New(rand.NewPCG(1, uint64(n.BlockSize())))
	for i := range 40 {
		length := n.BlockSize() * (1 + random.IntN(2))
		if i%4 == 0 { // several commands
			length = 300 << 10
		}
		off := random.IntN((size-length)/n.BlockSize()) * n.BlockSize()
		part := want[off : off+length]
		for j := range part {
			part[j] = byte(random.Uint32())
		}
		if done, err := n.WriteAt(part, int64(off)); done != length || err != nil {
			t.Fatal(done, err)
		}
	}
	check := func(after string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(after, err)
		}
		got := bytes.Repeat([]byte{0xee}, size)
		if done, err := n.ReadAt(got, 0); done != size || err != nil || !bytes.Equal(got, want) {
			t.Fatalf("after %s: read %d, %v, equal %v", after, done, err, bytes.Equal(got, want))
		}
	}
	check("writes", n.Flush(ctx))
	clear(want[64<<10 : 512<<10])
	check("a trim", n.Trim(ctx, 64<<10, 448<<10))
	clear(want[1<<20 : 2<<20])
	check("zeros", n.WriteZeroes(ctx, 1<<20, 1<<20, true))
	if err := n.Compare(ctx, want[:200<<10], 0); err != nil {
		t.Error("compare of equal data:", err)
	}
	other := bytes.Clone(want[:32<<10])
	other[20000]++
	var failed *status.Error
	if err := n.Compare(ctx, other, 0); !errors.As(err, &failed) || failed.Status.Code() != status.CompareFailed {
		t.Error("compare of other data:", err)
	}
}

func TestDiscovery(t *testing.T) {
	r := newRig(t, "", controller.Limits{})
	list, err := host.Discover(r.context(), r.addr, host.Config{Dialer: r.dialer})
	if err != nil || len(list) != 2 || list[1].Subsystem != nqn || list[1].Address+":"+list[1].Service != r.addr || list[1].Provider != logpage.ProviderRoCEv2 {
		t.Errorf("got %+v, %v", list, err)
	}
	r.idle()
}

func TestRefusalsReachTheHost(t *testing.T) {
	r := newRig(t, "", controller.Limits{QueueSize: 16}, allowed)
	dial := func(cfg host.Config) error {
		cfg.Dialer = r.dialer
		c, err := host.Dial(r.context(), r.addr, cfg)
		if err == nil {
			c.Close()
		}
		return err
	}
	for _, x := range []struct {
		cfg    host.Config
		status status.Status
		says   string
		reason controller.Reason
	}{
		{host.Config{Subsystem: "nqn.wrong", Host: allowed}, status.ConnectInvalid, "the target does not accept the subsystem's qualified name", controller.SubsystemUnknown},
		{host.Config{Subsystem: nqn, Host: "nqn.stranger"}, status.ConnectHost, "the host may not use the subsystem", controller.HostNotAllowed},
	} {
		var failed *status.Error
		if err := dial(x.cfg); !errors.As(err, &failed) || failed.Status.Code() != x.status || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%+v: got %v", x.cfg, err)
		}
		r.idle()
		r.mu.Lock()
		if !slices.ContainsFunc(r.events, func(e target.Event) bool {
			var why *controller.Refusal
			return e.Kind == target.Refused && errors.As(e.Err, &why) && why.Why == x.reason
		}) {
			t.Errorf("no event with the reason %v in %v", x.reason, r.events)
		}
		r.mu.Unlock()
	}
	// A host that asks for more than there is.
	_, err := rdmacm.Dial(r.context(), r.addr, func() rdmacm.Dialer {
		d := r.dialer
		d.Param.PrivateData = fabrics.Request{Queue: 1, HostReceives: 64, HostSends: 63}.Append(nil)
		return d
	}())
	var rejected *rdmacm.RejectedError
	if !errors.As(err, &rejected) {
		t.Fatal(err)
	}
	if status, err := fabrics.ParseReject(rejected.PrivateData); status != fabrics.RejectHostSends || err != nil {
		t.Errorf("got %v, %v", status, err)
	}
	c := r.dial(host.Config{Host: allowed, QueueSize: 64})
	n := r.namespace(c, 1)
	var failed *status.Error
	if _, err := n.ReadAt(make([]byte, 1024), size-512); !errors.As(err, &failed) || failed.Status.Code() != status.LBARange {
		t.Errorf("beyond the end: %v", err)
	}
	r.closed(c)
}

// TestConnectionsLeaveNothing connects 1,000 times: no object, key, descriptor, goroutine or memory is left.
func TestConnectionsLeaveNothing(t *testing.T) {
	r := newRig(t, "", controller.Limits{})
	const rounds = 334 // of three queues
	round := func() {
		c := r.dial(host.Config{Queues: 2, QueueSize: 4})
		if _, err := r.namespace(c, 1).WriteAt(make([]byte, 64<<10), 0); err != nil {
			t.Fatal(err)
		}
		r.closed(c)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.events = nil
	}
	heap := func() uint64 {
		var m runtime.MemStats
		for range 2 { // what has a finalizer is freed by the second
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for range 10 { // what is kept for the next connections
		round()
	}
	devices := []*verbs.Device{r.device, r.dialer.Device}
	var before [2]verbs.Counts
	for i, d := range devices {
		before[i] = d.Counts()
	}
	goroutines, files, bytes := runtime.NumGoroutine(), descriptors(t), heap()
	for range rounds {
		round()
	}
	if n := r.target.Counts().Connections; n < 1000 {
		t.Errorf("expected 1000 connections, found %d", n)
	}
	for i, d := range devices {
		if after := d.Counts(); after != before[i] {
			t.Errorf("objects: %+v, before %+v", after, before[i])
		}
	}
	// A connection that left its receives would leave 36 KiB.
	if n := heap(); n > bytes+rounds*4096 {
		t.Errorf("%d bytes of memory, before %d", n, bytes)
	}
	for ctx := r.context(); runtime.NumGoroutine() > goroutines; runtime.Gosched() {
		if ctx.Err() != nil {
			t.Fatalf("%d goroutines, before %d", runtime.NumGoroutine(), goroutines)
		}
	}
	if n := descriptors(t); n > files {
		t.Errorf("%d descriptors, before %d", n, files)
	}
}

func descriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("SKIPPED: no /proc/self/fd")
	}
	return len(list)
}

// TestBlocksLongerThanTransfersAreNamed: a host cannot read a part of a block.
func TestBlocksLongerThanTransfersAreNamed(t *testing.T) {
	r := newRig(t, "", controller.Limits{MaxTransfer: 8192})
	memory, err := block.NewMemory(1<<20, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.target.AddNamespace(r.sub, 3, memory, false); err != nil {
		t.Fatal(err)
	}
	c := r.dial(host.Config{})
	if _, err := c.Namespace(r.context(), 3); err == nil || !strings.Contains(err.Error(), "expected blocks of at most 8192 bytes, found 65536") {
		t.Errorf("found %v", err)
	}
	r.closed(c)
}

// A target that is closed ends its connections, and commands in progress fail.
func TestClosedTargetEndsConnections(t *testing.T) {
	r := newRig(t, "", controller.Limits{})
	c := r.dial(host.Config{})
	n := r.namespace(c, 1)
	if err := r.target.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.ReadAt(make([]byte, 512), 0); err == nil {
		t.Error("a closed target answers")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
