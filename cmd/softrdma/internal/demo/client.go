package demo

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/internal/host"
	"softrdma/verbs"
)

const (
	chunkSize = 1 << 20 // bytes of a message and of a write to TCP
	depth     = 16      // messages in flight

	transferRuns  = 3         // of each operation; the median counts
	maxRepeatSize = 512 << 20 // a larger file is moved once
	latencyRounds = 6_000     // of a latency test
	warmUpRounds  = 1_000     // not measured
	additions     = 10_000    // by each end
	swaps         = 2_500     // by each end
	slowDivisor   = 10        // of these numbers with --pcap, TLS and small files
	smallSize     = 2 << 20   // a smaller file is small
)

// After the file, the memory of both ends has space for latency tests and counters.
const (
	scratchSize = 4096
	scratchSend = 0
	scratchRecv = 1024
	scratchSum  = 2048 // the server's counter; the client receives old values here
)

// An operation is a way to move the file, or an atomic.
type operation struct {
	name  string // in messages and JSON
	title string

	// client runs in the first process, server in the second. Both are timed. When
	// client returns, the data is in the server's memory.
	client func(*client, context.Context, *measure.Message) error
	server func(*server, context.Context, *measure.Message) error

	count int64 // atomics of each end, or 0 if the operation moves the file
}

// operations is in the order of the table.
var operations = []operation{
	{name: measure.OpSend, title: "SEND/RECV", client: (*client).send, server: (*server).receive},
	{name: measure.OpWrite, title: "RDMA WRITE", client: (*client).write},
	{name: measure.OpRead, title: "RDMA READ", client: (*client).read},
	{name: measure.OpAtomic, title: "FETCH_AND_ADD", client: (*client).add, server: (*server).add, count: additions},
	{name: measure.OpSwap, title: "COMPARE_SWAP", client: (*client).swap, server: (*server).swap, count: swaps},
	{name: measure.OpTCP, title: "kernel TCP", client: (*client).tcp, server: (*server).tcp},
}

// path returns the path of the operation in a session over the given one.
func (o *operation) path(session verbs.Path) verbs.Path {
	if o.name == measure.OpTCP {
		return verbs.PathNetwork
	}
	return session
}

// sideConfig returns the configuration of both ends.
func sideConfig(dev cli.Device, size int) measure.SideConfig {
	return measure.SideConfig{
		Managed: dev.Protocol() == verbs.IWARP, // iWARP connects in no other way
		QPs:     1, Depth: 4 * measure.SignalEvery, Recv: max(messageCount(size), 2*measure.SignalEvery), Inline: measure.InlineLimit,
		Memory: memorySize(size),
	}
}

// memorySize returns the size of the memory of both ends.
func memorySize(size int) int { return scratchOffset(size) + scratchSize }

// messageCount returns the number of messages that move the file.
func messageCount(size int) int { return (size + chunkSize - 1) / chunkSize }

// scratchOffset returns the offset of the scratch memory.
func scratchOffset(size int) int { return (size + scratchSize - 1) &^ (scratchSize - 1) }

// A client is the end of the first process.
type client struct {
	side    *measure.Side
	c       *measure.Control
	dev     cli.Device
	peer    string // device of the second process
	path    verbs.Path
	size    int
	scratch int
	divisor int64
	repeats int
	sum     string // SHA-256 of the file
	bar     *progress
}

// newClient connects this process's end to a device that the second process opens with
// the given mode.
func newClient(ctx context.Context, dev cli.Device, f *firstProcess, mode verbs.SameHost) (*client, error) {
	cfg := sideConfig(dev, f.size)
	cfg.Shared = f.mem
	s, err := measure.NewSide(dev.Device, cfg)
	if err != nil {
		return nil, err
	}
	d := &client{
		side: s, c: f.control, dev: dev, size: f.size, scratch: scratchOffset(f.size), divisor: 1, repeats: transferRuns,
		sum: f.sum, bar: f.bar,
	}
	switch {
	case f.size > maxRepeatSize:
		d.repeats = 1
	case f.size < smallSize:
		d.divisor = slowDivisor
	}
	ask := &measure.Message{Do: measure.DoConnect, Size: f.size, Endpoints: s.Local, Memory: s.Memory(), SameHost: mode}
	hello, err := d.c.Ask(ctx, ask, measure.DoHello)
	if err == nil {
		d.peer = hello.Device
		if s.Cfg.Managed {
			err = s.Dial(ctx, hello, netip.Addr{})
		}
		if err == nil {
			err = s.Connect(hello, 0)
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	d.path = s.QPs[0].Path()
	return d, nil
}

// protocol returns the protocol of both devices.
func (d *client) protocol() cli.Protocol { return cli.ProtocolOf(d.dev.Device) }

// data returns the memory of the file.
func (d *client) data() []byte { return d.side.Buf[:d.size] }

// run runs the operations of the session and adds their rows to the report. The session
// through memory has none for TCP.
func (d *client) run(ctx context.Context, r *report) error {
	total := len(r.Operations) + len(operations)
	if d.path == verbs.PathSameHost {
		total += len(operations) - 1 // the second session, which has TCP
	}
	for i := range operations {
		o := &operations[i]
		if o.name == measure.OpTCP && d.path == verbs.PathSameHost {
			continue
		}
		d.bar.operation(len(r.Operations)+1, total, o.phase(d.path))
		row, err := d.median(ctx, o)
		if err != nil {
			return err
		}
		if err := d.latency(ctx, o, row); err != nil {
			return err
		}
		r.Operations = append(r.Operations, *row)
	}
	return nil
}

// median runs an operation several times and returns the run with the median time.
func (d *client) median(ctx context.Context, o *operation) (*resultRow, error) {
	var rows []*resultRow
	for n := range d.repeats {
		d.bar.transfer(n+1, d.repeats, d.size, o.count/d.divisor)
		row, err := d.transfer(ctx, o)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b *resultRow) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return rows[len(rows)/2], nil
}

// transfer runs and times one operation and checks its result.
func (d *client) transfer(ctx context.Context, o *operation) (*resultRow, error) {
	count := o.count / d.divisor
	if o.name == measure.OpRead {
		clear(d.data()) // it is read back from the other end
	}
	ready, err := d.c.Ask(ctx, &measure.Message{Do: measure.DoBegin, Operation: o.name, Count: count}, measure.DoReady)
	if err != nil {
		return nil, err
	}
	watched, stop := d.side.Watch(ctx)
	if o.name == measure.OpTCP {
		watched = ctx // no completions to watch
	}
	defer stop()
	cpu, start := host.CPUTime(), time.Now()
	if err := o.client(d, watched, ready); err != nil {
		return nil, err
	}
	row := &resultRow{Name: o.name, Path: o.path(d.path), Bytes: int64(d.size), Count: count, Seconds: time.Since(start).Seconds()}
	client := (host.CPUTime() - cpu).Seconds()
	end, err := d.c.Ask(ctx, &measure.Message{Do: measure.DoEnd}, measure.DoDone)
	if err != nil {
		return nil, err
	}
	row.rate(client, end.CPU)
	if ours := d.side.QPs[0].Path(); ours != d.path || end.Path != d.path {
		return nil, cli.PeerErrorf("%s: the path changed while it ran: expected %q, found %q and at the other end %q", o.title, d.path, ours, end.Path)
	}
	return row, d.check(o, row, end)
}

// check checks the data or the sum after an operation.
func (d *client) check(o *operation, row *resultRow, end *measure.Message) error {
	if o.count > 0 {
		if want := 2 * uint64(row.Count); end.Value != want {
			return cli.DataErrorf("%s: both ends added 1 to the counter %d times: expected %d, found %d", o.title, row.Count, want, end.Value)
		}
		row.Checked = "sum"
		return nil
	}
	sum := end.SHA256
	if o.name == measure.OpRead {
		sum = sha256Hex(d.data())
	}
	if sum != d.sum {
		return cli.DataErrorf("%s: the file arrived with another SHA-256: expected %s, found %s", o.title, d.sum, sum)
	}
	row.Checked = "SHA-256"
	return nil
}

// latency measures 8-byte messages of the operation's kind.
func (d *client) latency(ctx context.Context, o *operation, row *resultRow) error {
	d.bar.latency()
	h := measure.NewHistogram()
	for _, n := range []int64{warmUpRounds, latencyRounds} {
		h.Reset()
		n /= d.divisor
		r := newRound(o.name, n, d.scratch)
		if err := d.side.PrepareRound(&r); err != nil {
			return err
		}
		ready, err := d.c.Ask(ctx, &measure.Message{Do: measure.DoLatency, Operation: o.name, Count: n}, measure.DoReady)
		if err != nil {
			return err
		}
		if o.name == measure.OpTCP {
			err = d.tcpPing(ctx, ready, n, h)
		} else {
			watched, stop := d.side.Watch(ctx)
			err = d.side.Ping(watched, &r, h)
			stop()
		}
		if err != nil {
			return err
		}
		if _, err := d.c.Ask(ctx, &measure.Message{Do: measure.DoEnd}, measure.DoDone); err != nil {
			return err
		}
	}
	l := measure.NewLatencyResult(h, 8, measure.OneWay(o.name) || o.name == measure.OpTCP)
	row.P50, row.P99 = l.Typical, l.P99
	return nil
}

func newRound(op string, n int64, scratch int) measure.Round {
	return measure.Round{Op: op, Size: 8, Count: n, Source: scratch + scratchSend, Target: scratch + scratchRecv}
}

// stream keeps several messages of the file in flight until all have completed. request
// returns the request for n bytes at an offset.
func (d *client) stream(ctx context.Context, request func(at, n int) verbs.SendWR) error {
	posted, done := 0, int64(0)
	base := d.side.Sent
	total := int64(messageCount(d.size))
	for done < total {
		for posted < d.size && int64(posted/chunkSize)-done < depth {
			n := min(chunkSize, d.size-posted)
			wr := request(posted, n)
			wr.Flags |= verbs.Signaled
			if err := d.side.QPs[0].PostSend(wr); err != nil {
				return err
			}
			posted += n
		}
		if err := d.side.Poll(ctx); err != nil {
			return err
		}
		done = d.side.Sent - base
		d.bar.set(done * chunkSize)
	}
	return nil
}

// local and remote address n bytes of the file at an offset, at this end and at the
// other.
func (d *client) local(at, n int) []verbs.SGE { return []verbs.SGE{d.side.MR.SGE(at, n)} }

func (d *client) remote(wr *verbs.SendWR, at int) {
	wr.RemoteAddr, wr.RKey = d.side.Remote.Addr+uint64(at), d.side.Remote.RKey
}
