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

	"softrdma/bench/compare"
	"softrdma/bench/loop"
	"softrdma/internal/host"
	"softrdma/verbs"
)

// endpointsPerLine is the number of queue pairs in one control message.
const endpointsPerLine = 1000

// settleTime is the time after which queue pairs count as idle: the garbage collector
// and the lanes have finished their work.
const settleTime = 200 * time.Millisecond

// newScalingCommand returns the hidden command that bench starts as one end of a
// measurement over many queue pairs.
func newScalingCommand() *cobra.Command {
	return &cobra.Command{
		Use: "scaling CONFIG", Short: "One end of WRITEs over many queue pairs, which bench starts", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := compare.ParseScalingConfig(args[0])
			if err != nil {
				return fmt.Errorf("%w", err)
			}
			dev, err := verbs.Open(c.Device, verbs.Config{SameHost: verbs.SameHost(c.SameHost)})
			if err != nil {
				return err
			}
			defer dev.Close()
			if c.Server {
				return serveScaling(cmd.Context(), c, dev, cmd.OutOrStdout())
			}
			return measureScaling(cmd.Context(), c, dev, cmd.OutOrStdout())
		},
	}
}

func serveScaling(ctx context.Context, c *compare.ScalingConfig, dev *verbs.Device, out io.Writer) error {
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
	ctl, ctx := newControl(ctx, conn)
	e, err := newQPSet(ctx, c, dev, ctl)
	if err != nil {
		return err
	}
	if _, err := ctl.expect(ctx, doBegin); err != nil {
		return err
	}
	begin := host.CPUTime()
	for c.Bytes > 0 && len(ctl.in) == 0 && ctx.Err() == nil {
		if err := e.poll(); err != nil {
			return err
		}
	}
	if _, err := ctl.expect(ctx, doEnd); err != nil {
		return err
	}
	if err := ctl.out.Encode(message{Do: doDone, CPU: (host.CPUTime() - begin).Seconds()}); err != nil {
		return err
	}
	<-ctx.Done() // when the client has received it and ends
	return nil
}

func measureScaling(ctx context.Context, c *compare.ScalingConfig, dev *verbs.Device, out io.Writer) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", c.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctl, ctx := newControl(ctx, conn)
	e, err := newQPSet(ctx, c, dev, ctl)
	if err != nil {
		return err
	}
	if err := ctl.out.Encode(message{Do: doBegin}); err != nil {
		return err
	}
	r := compare.Result{Memory: e.idleMemory}
	if err := e.warmUp(ctx); err != nil {
		return err
	}
	switches, err := contextSwitches(c)
	if err != nil {
		return err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start, cpu := time.Now(), host.CPUTime()
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
	elapsed, used := time.Since(start).Seconds(), (host.CPUTime() - cpu).Seconds()
	switched, err := contextSwitches(c)
	if err != nil {
		return err
	}
	r.Wakeups = float64(switched - switches)
	runtime.ReadMemStats(&after)
	peer, err := ctl.ask(ctx, message{Do: doEnd}, doDone)
	if err != nil {
		return err
	}
	if c.Bytes > 0 {
		r.Rate = float64(done) / elapsed
		r.Throughput = r.Rate * float64(c.Bytes)
		r.Allocations = float64(after.Mallocs-before.Mallocs) / float64(max(done, 1))
	} else {
		r.Idle = max(used/elapsed, peer.CPU/(elapsed+settleTime.Seconds()))
	}
	return json.NewEncoder(out).Encode(r)
}

// contextSwitches returns the context switches of the server's process so far.
func contextSwitches(c *compare.ScalingConfig) (int, error) {
	if c.Process == 0 {
		return 0, nil
	}
	return loop.ContextSwitches(c.Process)
}

// A qpSet is one end: queue pairs with one completion queue, and memory that both ends
// access.
type qpSet struct {
	cfg        *compare.ScalingConfig
	cq         *verbs.CQ
	qps        []*verbs.QP
	mr         *verbs.MR
	remote     message // the peer's memory
	idleMemory float64 // bytes that an unused queue pair takes
	singleCPU  bool
	wcs        [64]verbs.WC

	sendSlots []int32 // free entries of each send queue
	next      int     // queue pair to post to next
	inFlight  int     // messages posted and not completed
	done      int     // messages completed
}

// newQPSet creates an end and connects it. Closing the device frees its objects.
func newQPSet(ctx context.Context, c *compare.ScalingConfig, dev *verbs.Device, ctl *control) (*qpSet, error) {
	e := &qpSet{cfg: c, sendSlots: make([]int32, c.QPs), singleCPU: runtime.GOMAXPROCS(0) == 1}
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
	clear(mem.Bytes()) // avoid page faults during the measurement
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
	e.idleMemory = float64(heapInUse()-before) / float64(c.QPs)
	// Wait until the peer has connected its queue pairs as well.
	_, err = ctl.ask(ctx, message{Do: doReady}, doReady)
	for i := range e.sendSlots {
		e.sendSlots[i] = int32(c.Depth())
	}
	return e, err
}

// connect exchanges endpoints with the peer and connects the queue pairs.
func (e *qpSet) connect(ctx context.Context, ctl *control) error {
	local := make([]verbs.Endpoint, len(e.qps))
	for i, q := range e.qps {
		local[i] = q.Endpoint()
	}
	for at := 0; at < len(e.qps); at += endpointsPerLine {
		end := min(at+endpointsPerLine, len(e.qps))
		m := message{Do: doConnect, Endpoints: local[at:end], Addr: e.mr.Addr(), RKey: e.mr.RKey()}
		peer, err := ctl.ask(ctx, m, doConnect)
		if err != nil {
			return err
		}
		if len(peer.Endpoints) != end-at {
			return fmt.Errorf("control connection: expected %d endpoints, found %d", end-at, len(peer.Endpoints))
		}
		e.remote = peer
		for i, q := range e.qps[at:end] {
			if err := q.Connect(local[at+i], peer.Endpoints[i], verbs.ConnectConfig{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// heapInUse returns the bytes that the garbage collector finds in use.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// write posts WRITEs to the queue pairs in turn until over returns true for the number
// completed, and waits for the rest. It returns the number of all messages.
func (e *qpSet) write(ctx context.Context, bytes int, over func(done int) bool) (int, error) {
	e.done = 0
	wr := [1]verbs.SendWR{{Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{e.mr.SGE(0, bytes)}}}
	wr[0].RemoteAddr, wr[0].RKey = e.remote.Addr, e.remote.RKey
	flight := e.cfg.Flight()
	for ending := false; !ending || e.inFlight > 0; {
		ending = ending || over(e.done)
		for !ending && e.inFlight < flight && e.sendSlots[e.next] > 0 {
			wr[0].WRID = uint64(e.next)
			if err := e.qps[e.next].PostSend(wr[:]...); err != nil {
				return 0, err
			}
			e.sendSlots[e.next]--
			e.inFlight++
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

// warmUp uses each queue pair once and lets congestion windows open, or waits until
// idle queue pairs have settled.
func (e *qpSet) warmUp(ctx context.Context) error {
	if e.cfg.Bytes == 0 {
		time.Sleep(settleTime)
		return nil
	}
	if _, err := e.write(ctx, 64, func(done int) bool { return done >= e.cfg.QPs }); err != nil {
		return err
	}
	start := time.Now()
	_, err := e.write(ctx, e.cfg.Bytes, func(int) bool { return time.Since(start) >= e.cfg.Duration()/4 })
	return err
}

// poll handles completions.
func (e *qpSet) poll() error {
	n, err := e.cq.Poll(e.wcs[:])
	if err != nil {
		return err
	}
	if n == 0 && e.singleCPU {
		time.Sleep(time.Microsecond) // for the other process
	}
	for i := range e.wcs[:n] {
		if wc := &e.wcs[i]; wc.Status != verbs.Success {
			return wc.Err()
		}
		e.sendSlots[e.wcs[i].WRID]++
	}
	e.inFlight, e.done = e.inFlight-n, e.done+n
	return nil
}
