package main

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"softrdma/bench"
	"softrdma/verbs"
)

const (
	demoChunk = 1 << 20 // bytes of a message, and of a write to TCP
	demoDepth = 16      // messages in flight

	demoRepeats    = 3         // of moving the file: the median counts
	demoRepeatSize = 512 << 20 // a larger file is moved once
	demoRounds     = 10_000    // of a latency test
	demoWarmUp     = 2_000     // rounds before, which do not count
	demoAdditions  = 20_000    // by each end
	demoExchanges  = 5_000     // by each end
	slowDivisor    = 10        // of these numbers with --pcap and TLS
)

// Behind the file, the memory of both ends has room for latency tests and
// counters.
const (
	demoScratch = 4096
	scratchSend = 0
	scratchRecv = 1024
	scratchSum  = 2048 // the counter; at the client, where results arrive
)

// A demoOperation is a way to move the file, or to count.
type demoOperation struct {
	name  string // in messages and JSON
	title string

	// client runs at the first process, server at the second; what they do is
	// timed. A client that is done knows that the server's memory is complete.
	client func(*demoClient, context.Context, *controlMessage) error
	server func(*demoServer, context.Context, *controlMessage) error

	count int64 // of each end's atomics; 0 for what moves the file
}

// demoOperations are in the order of the table.
var demoOperations = []demoOperation{
	{name: opSend, title: "SEND/RECV", client: (*demoClient).send, server: (*demoServer).receive},
	{name: opWrite, title: "RDMA WRITE", client: (*demoClient).write},
	{name: opRead, title: "RDMA READ", client: (*demoClient).read},
	{name: opAtomic, title: "FETCH_AND_ADD", client: (*demoClient).add, server: (*demoServer).add, count: demoAdditions},
	{name: opSwap, title: "COMPARE_SWAP", client: (*demoClient).swap, server: (*demoServer).swap, count: demoExchanges},
	{name: opTCP, title: "kernel TCP", client: (*demoClient).tcp, server: (*demoServer).tcp},
}

// demoSideConfig is what both processes use.
func demoSideConfig(dev opened, size int) sideConfig {
	return sideConfig{
		Managed: dev.Protocol() == verbs.IWARP, // which has nothing else
		QPs:     1, Depth: 4 * signalEvery, Recv: max(demoMessages(size), 2*signalEvery), Inline: inlineLimit,
		Memory: demoScratchAt(size) + demoScratch,
	}
}

// demoMessages is how many messages move the file.
func demoMessages(size int) int { return (size + demoChunk - 1) / demoChunk }

// demoScratchAt is the offset of the scratch memory.
func demoScratchAt(size int) int { return (size + demoScratch - 1) &^ (demoScratch - 1) }

// demoClient is the first process's end.
type demoClient struct {
	side    *side
	c       *control
	dev     opened
	peer    string // the second process's device
	size    int
	scratch int
	divisor int64
	repeats int
	sum     string // SHA-256 of the file
	bar     *demoProgress
}

// newDemoClient connects this process's end to that of the second process.
func newDemoClient(ctx context.Context, dev opened, c *control, size int) (*demoClient, error) {
	s, err := newSide(dev.Device, demoSideConfig(dev, size))
	if err != nil {
		return nil, err
	}
	d := &demoClient{side: s, c: c, dev: dev, size: size, scratch: demoScratchAt(size), divisor: 1, repeats: demoRepeats}
	if size > demoRepeatSize {
		d.repeats = 1
	}
	hello, err := c.ask(ctx, &controlMessage{Do: doConnect, Size: size, Endpoints: s.local, Memory: s.memory()}, doHello)
	if err == nil {
		d.peer = hello.Device
		if s.cfg.Managed {
			err = s.call(ctx, hello, netip.Addr{})
		}
		if err == nil {
			err = s.connect(hello, 0)
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return d, nil
}

// protocol is what both devices speak.
func (d *demoClient) protocol() protocolFlag {
	if d.dev.Protocol() == verbs.IWARP {
		return protocolIWARP
	}
	return protocolRoCE
}

// data is the file.
func (d *demoClient) data() []byte { return d.side.buf[:d.size] }

// run moves the file by every operation.
func (d *demoClient) run(ctx context.Context) (*demoReport, error) {
	r := &demoReport{Bytes: d.size, SHA256: d.sum, Client: deviceName(d.dev.Device), Server: d.protocol().name(d.peer), Protocol: d.dev.Protocol().String(), Repeats: d.repeats}
	for i := range demoOperations {
		o := &demoOperations[i]
		d.bar.operation(i+1, len(demoOperations), o.title)
		row, err := d.median(ctx, o)
		if err != nil {
			return nil, err
		}
		if err := d.latency(ctx, o, row); err != nil {
			return nil, err
		}
		r.Operations = append(r.Operations, *row)
	}
	return r, nil
}

// median is the operation's run that took neither the longest nor the shortest
// time.
func (d *demoClient) median(ctx context.Context, o *demoOperation) (*demoRow, error) {
	var rows []*demoRow
	for n := range d.repeats {
		d.bar.transfer(n+1, d.repeats, d.size, o.count/d.divisor)
		row, err := d.transfer(ctx, o)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b *demoRow) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return rows[len(rows)/2], nil
}

// transfer runs and times one operation and checks what came of it.
func (d *demoClient) transfer(ctx context.Context, o *demoOperation) (*demoRow, error) {
	count := o.count / d.divisor
	if o.name == opRead {
		clear(d.data()) // it comes back from the other end
	}
	ready, err := d.c.ask(ctx, &controlMessage{Do: doBegin, Operation: o.name, Count: count}, doReady)
	if err != nil {
		return nil, err
	}
	watched, stop := d.side.watch(ctx)
	if o.name == opTCP {
		watched = ctx // nothing of ours completes
	}
	defer stop()
	cpu, start := bench.CPUTime(), time.Now()
	if err := o.client(d, watched, ready); err != nil {
		return nil, err
	}
	row := &demoRow{Name: o.name, Title: o.title, Bytes: int64(d.size), Count: count, Seconds: time.Since(start).Seconds()}
	client := (bench.CPUTime() - cpu).Seconds()
	end, err := d.c.ask(ctx, &controlMessage{Do: doEnd}, doDone)
	if err != nil {
		return nil, err
	}
	row.rate(client, end.CPU)
	return row, d.check(o, row, end)
}

// check compares what arrived with what was sent.
func (d *demoClient) check(o *demoOperation, row *demoRow, end *controlMessage) error {
	if o.count > 0 {
		if want := 2 * uint64(row.Count); end.Value != want {
			return dataErrorf("%s: both ends added 1 to the counter %d times: expected %d, found %d", o.title, row.Count, want, end.Value)
		}
		row.Checked = "sum"
		return nil
	}
	sum := end.SHA256
	if o.name == opRead {
		sum = sumOf(d.data())
	}
	if sum != d.sum {
		return dataErrorf("%s: the file arrived with another SHA-256: expected %s, found %s", o.title, d.sum, sum)
	}
	row.Checked = "SHA-256"
	return nil
}

// latency measures 8-byte messages of the operation's kind.
func (d *demoClient) latency(ctx context.Context, o *demoOperation, row *demoRow) error {
	d.bar.latency()
	h := newLatencies()
	for _, n := range []int64{demoWarmUp, demoRounds} {
		h.Reset()
		n /= d.divisor
		r := demoRound(o.name, n, d.scratch)
		if err := d.side.prepare(&r); err != nil {
			return err
		}
		ready, err := d.c.ask(ctx, &controlMessage{Do: doLatency, Operation: o.name, Count: n}, doReady)
		if err != nil {
			return err
		}
		if o.name == opTCP {
			err = d.tcpPing(ctx, ready, n, h)
		} else {
			watched, stop := d.side.watch(ctx)
			err = d.side.ping(watched, &r, h)
			stop()
		}
		if err != nil {
			return err
		}
		if _, err := d.c.ask(ctx, &controlMessage{Do: doEnd}, doDone); err != nil {
			return err
		}
	}
	l := newLatencyResult(h, 8, oneWay(o.name) || o.name == opTCP)
	row.P50, row.P99 = l.Typical, l.P99
	return nil
}

func demoRound(op string, n int64, scratch int) round {
	return round{op: op, size: 8, count: n, source: scratch + scratchSend, target: scratch + scratchRecv}
}

// stream keeps some messages of the file in flight until all have completed;
// request makes the one of n bytes at an offset.
func (d *demoClient) stream(ctx context.Context, request func(at, n int) verbs.SendWR) error {
	posted, done := 0, int64(0)
	base := d.side.sent
	total := int64(demoMessages(d.size))
	for done < total {
		for posted < d.size && int64(posted/demoChunk)-done < demoDepth {
			n := min(demoChunk, d.size-posted)
			wr := request(posted, n)
			wr.Flags |= verbs.Signaled
			if err := d.side.qps[0].PostSend(wr); err != nil {
				return err
			}
			posted += n
		}
		if err := d.side.poll(ctx); err != nil {
			return err
		}
		done = d.side.sent - base
		d.bar.set(done * demoChunk)
	}
	return nil
}

// local and remote name n bytes of the file at an offset, at the two ends.
func (d *demoClient) local(at, n int) []verbs.SGE { return []verbs.SGE{d.side.mr.SGE(at, n)} }

func (d *demoClient) remote(wr *verbs.SendWR, at int) {
	wr.RemoteAddr, wr.RKey = d.side.remote.Addr+uint64(at), d.side.remote.RKey
}
