package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"softrdma/bench"
	"softrdma/verbs"
)

// endpointsPerLine is how many queue pairs one control message tells of.
const endpointsPerLine = 1000

// crowdSettle is how long a crowd is left alone before it is idle: the
// collector and the lanes end what they were doing.
const crowdSettle = 200 * time.Millisecond

// newBenchCrowdCommand is one end of a measurement over many queue pairs, which
// bench starts.
func newBenchCrowdCommand() *cobra.Command {
	return &cobra.Command{
		Use: "crowd ORDERS", Short: "One end of WRITEs over many queue pairs, which bench starts", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := bench.ParseCrowdConfig(args[0])
			if err != nil {
				return usageErrorf("%w", err)
			}
			dev, closeDevice, err := openDevice(cmd, c.Device, verbs.Config{})
			if err != nil {
				return err
			}
			defer closeDevice()
			if c.Server {
				return serveCrowd(cmd.Context(), c, dev, cmd.OutOrStdout())
			}
			return askCrowd(cmd.Context(), c, dev, cmd.OutOrStdout())
		},
	}
}

func serveCrowd(ctx context.Context, c *bench.CrowdConfig, dev *verbs.Device, out io.Writer) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Address)
	if err != nil {
		return err
	}
	defer l.Close()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	defer conn.Close()
	ctl, ctx, end := newControl(ctx, conn, conn)
	defer end()
	e, err := newCrowd(ctx, c, dev, ctl)
	if err != nil {
		return err
	}
	if _, err := ctl.expect(ctx, doBegin); err != nil {
		return err
	}
	begin := bench.CPUTime()
	for c.Bytes > 0 && len(ctl.in) == 0 && ctx.Err() == nil {
		if err := e.poll(); err != nil {
			return err
		}
	}
	if _, err := ctl.expect(ctx, doEnd); err != nil {
		return err
	}
	if err := ctl.send(&controlMessage{Do: doDone, CPU: (bench.CPUTime() - begin).Seconds()}); err != nil {
		return err
	}
	ctl.next(ctx) // the client has it
	return nil
}

func askCrowd(ctx context.Context, c *bench.CrowdConfig, dev *verbs.Device, out io.Writer) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctl, ctx, end := newControl(ctx, conn, conn)
	defer end()
	e, err := newCrowd(ctx, c, dev, ctl)
	if err != nil {
		return err
	}
	if err := ctl.send(&controlMessage{Do: doBegin}); err != nil {
		return err
	}
	r := bench.Result{Memory: e.idle}
	if c.Bytes > 0 {
		// Each queue pair has been used, and windows have opened.
		if _, err = e.write(ctx, 64, func(done int) bool { return done >= c.QPs }); err == nil {
			start := time.Now()
			_, err = e.write(ctx, c.Bytes, func(int) bool { return time.Since(start) >= c.Duration()/4 })
		}
	} else {
		time.Sleep(crowdSettle)
	}
	if err != nil {
		return err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, cpu := time.Now(), bench.CPUTime()
	over := func(int) bool { return time.Since(start) >= c.Duration() }
	done := 0
	if c.Bytes > 0 {
		done, err = e.write(ctx, c.Bytes, over)
	} else {
		time.Sleep(c.Duration())
	}
	if err != nil {
		return err
	}
	elapsed, used := time.Since(start).Seconds(), (bench.CPUTime() - cpu).Seconds()
	runtime.ReadMemStats(&after)
	peer, err := ctl.ask(ctx, &controlMessage{Do: doEnd}, doDone)
	if err != nil {
		return err
	}
	if c.Bytes > 0 {
		r.Rate = float64(done) / elapsed
		r.Throughput = r.Rate * float64(c.Bytes)
		r.Allocations = float64(after.Mallocs-before.Mallocs) / float64(max(done, 1))
	} else {
		r.Idle = max(used/elapsed, peer.CPU/(elapsed+crowdSettle.Seconds()))
	}
	return json.NewEncoder(out).Encode(r)
}

// A crowd is one end: queue pairs to the other end, all of which complete to
// one queue, and memory that both ends reach.
type crowd struct {
	cfg    *bench.CrowdConfig
	cq     *verbs.CQ
	qps    []*verbs.QP
	mr     *verbs.MR
	remote remoteMemory
	idle   float64 // bytes that a queue pair takes that nothing was posted to
	single bool
	wcs    [64]verbs.WC

	room  []int32 // of each send queue
	next  int     // queue pair whose turn it is
	under int     // messages under way
	done  int     // that have completed
}

// newCrowd makes an end and connects it. Its objects go with the device.
func newCrowd(ctx context.Context, c *bench.CrowdConfig, dev *verbs.Device, ctl *control) (*crowd, error) {
	e := &crowd{cfg: c, room: make([]int32, c.QPs), single: runtime.GOMAXPROCS(0) == 1}
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	if e.cq, err = dev.CreateCQ(verbs.CQConfig{Depth: c.Flight()}); err != nil {
		return nil, err
	}
	mem, err := verbs.AllocMemory(max(c.Bytes, 64), verbs.AllocConfig{})
	if err != nil {
		return nil, err
	}
	clear(mem.Bytes()) // no page is missing when the clock runs
	if e.mr, err = pd.RegisterMemory(mem.Bytes(), verbs.LocalWrite|verbs.RemoteWrite); err != nil {
		return nil, err
	}
	e.qps = make([]*verbs.QP, 0, c.QPs)
	before := heapInUse()
	config := verbs.QPConfig{Type: verbs.RC, SendCQ: e.cq, MaxSend: c.Depth(), MaxRecv: 1, MaxSendSGE: 1, MaxRecvSGE: 1}
	for range c.QPs {
		q, err := pd.CreateQP(config)
		if err != nil {
			return nil, err
		}
		e.qps = append(e.qps, q)
	}
	if err := e.connect(ctx, ctl); err != nil {
		return nil, err
	}
	e.idle = float64(heapInUse()-before) / float64(c.QPs)
	// The peer's queue pairs are connected as well.
	_, err = ctl.ask(ctx, &controlMessage{Do: doReady}, doReady)
	for i := range e.room {
		e.room[i] = int32(c.Depth())
	}
	return e, err
}

// connect tells the peer of the queue pairs and connects them to its.
func (e *crowd) connect(ctx context.Context, ctl *control) error {
	local := make([]verbs.Endpoint, len(e.qps))
	for i, q := range e.qps {
		local[i] = q.Endpoint()
	}
	for at := 0; at < len(e.qps); at += endpointsPerLine {
		end := min(at+endpointsPerLine, len(e.qps))
		m := &controlMessage{Do: doConnect, Endpoints: local[at:end], Memory: &remoteMemory{e.mr.Addr(), e.mr.RKey()}}
		peer, err := ctl.ask(ctx, m, doConnect)
		if err != nil {
			return err
		}
		if len(peer.Endpoints) != end-at || peer.Memory == nil {
			return peerErrorf("control channel: expected %d endpoints and a memory region, found %d endpoints", end-at, len(peer.Endpoints))
		}
		e.remote = *peer.Memory
		for i, q := range e.qps[at:end] {
			if err := q.Connect(local[at+i], peer.Endpoints[i], verbs.ConnectConfig{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// heapInUse is what the collector finds in use, bytes.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// write WRITEs messages over the queue pairs in turn until over says so of the
// number that have completed, and waits for the rest. It tells how many there
// were in all.
func (e *crowd) write(ctx context.Context, bytes int, over func(done int) bool) (int, error) {
	e.done = 0
	wr := [1]verbs.SendWR{{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{e.mr.SGE(0, bytes)}}}
	wr[0].RemoteAddr, wr[0].RKey = e.remote.Addr, e.remote.RKey
	flight := e.cfg.Flight()
	for ending := false; !ending || e.under > 0; {
		ending = ending || over(e.done)
		for !ending && e.under < flight && e.room[e.next] > 0 {
			wr[0].WRID = uint64(e.next)
			if err := e.qps[e.next].PostSend(wr[:]...); err != nil {
				return 0, err
			}
			e.room[e.next]--
			e.under++
			e.next = (e.next + 1) % len(e.qps)
		}
		if err := e.poll(); err != nil {
			return 0, err
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
	}
	return e.done, nil
}

// poll takes what has completed.
func (e *crowd) poll() error {
	n, err := e.cq.Poll(e.wcs[:])
	if err != nil {
		return err
	}
	if n == 0 && e.single {
		yield()
	}
	for i := range e.wcs[:n] {
		if wc := &e.wcs[i]; wc.Status != verbs.Success {
			return wc.Err()
		}
		e.room[e.wcs[i].WRID]++
	}
	e.under, e.done = e.under-n, e.done+n
	return nil
}
