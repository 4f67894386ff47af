package bench

import (
	"context"
)

// A Place is another machine that both ends of a path run on: a virtual one
// whose file system has this machine's programs.
type Place interface {
	// Serve starts a program, waits until it has printed ready, and returns what
	// ends it.
	Serve(ctx context.Context, ready string, argv ...string) (stop func(), err error)

	// Run runs a program to its end, and returns what it printed.
	Run(ctx context.Context, argv ...string) ([]byte, error)
}

// Guest is the path over the loopback of a virtual machine, whose kernel has an
// RDMA device for Perftest. Closing the path calls end.
func Guest(g Place, end func()) *Path {
	p := Loopback()
	p.Name, p.place, p.close = "loopback of a virtual machine", g, end
	p.port = 4793 // Linux's rxe has RoCE's of every address
	return p
}

// block is the size of perftest's messages where it is not told another.
const block = 64 << 10

// guestFigures are what softrdma and the kernel's Soft RoCE do in one guest.
func guestFigures() []Figure {
	pair := func(kind Kind, op string, bytes, mtu int, m Metric) (of, against Measure) {
		w := Work{Tool: "softrdma", Kind: kind, Op: op, Bytes: bytes, MTU: mtu}
		peer := w
		peer.Tool = RxeName
		return Measure{w, m}, Measure{peer, m}
	}
	var all []Figure
	add := func(name string, kind Kind, op string, bytes, mtu int, m Metric, less bool, gate, stretch float64) {
		of, against := pair(kind, op, bytes, mtu, m)
		all = append(all, Figure{name, of, against, less, gate, stretch})
	}
	add("64 KiB WRITE at path MTU 1024, of rxe", Stream, "write", block, 1024, Throughput, false, 2, 4)
	add("64 KiB WRITE at path MTU 4096, of rxe", Stream, "write", block, 4096, Throughput, false, 2, 4)
	add("64 KiB READ at path MTU 4096, of rxe", Stream, "read", block, 4096, Throughput, false, 2, 4)
	add("64 KiB SEND at path MTU 4096, of rxe", Stream, "send", block, 4096, Throughput, false, 2, 4)
	add("8 B WRITE latency, of rxe", Ping, "write", word, 4096, P50, true, .8, .5)
	add("8 B SEND latency, of rxe", Ping, "send", word, 4096, P50, true, .8, .5)
	add("8 B WRITE rate, of rxe", Stream, "write", word, 4096, Rate, false, 2, 5)
	return append(all, execFigures()...)
}

// execFigures are what perftest does in the guest under `softrdma exec`, beside
// the same perftest on the kernel's Soft RoCE and beside UCX.
func execFigures() []Figure {
	work := func(tool string, kind Kind, op string, bytes int) Work {
		return Work{Tool: tool, Kind: kind, Op: op, Bytes: bytes, MTU: 4096}
	}
	var all []Figure
	add := func(name, tool string, kind Kind, op string, bytes int, m Metric, gate, stretch float64) {
		of, against := work(tool, kind, op, bytes), work(RxeName, kind, op, bytes)
		all = append(all, Figure{name + ", of rxe", Measure{of, m}, Measure{against, m}, kind == Ping, gate, stretch})
	}
	for _, op := range []string{"write", "send", "read"} {
		add("exec: ib_"+op+"_lat 8 B", ExecName, Ping, op, word, P50, .8, .5)
	}
	for _, op := range []string{"write", "send", "read"} {
		add("exec: ib_"+op+"_bw 64 KiB", ExecName, Stream, op, block, Throughput, 2, 4)
		add("exec --share-memory: ib_"+op+"_bw 64 KiB", ExecSharedName, Stream, op, block, Throughput, 2, 4)
	}
	add("exec: ib_write_bw 1 MiB", ExecName, Stream, "write", mib, Throughput, 2, 4)
	add("exec --share-memory: ib_write_bw 1 MiB", ExecSharedName, Stream, "write", mib, Throughput, 2, 4)
	add("exec: ib_write_bw 8 B", ExecName, Stream, "write", word, Rate, 2, 5)
	// UCX has gates on a machine of its own, where processors are not emulated.
	beside := func(name, tool string, kind Kind, op string, bytes int, peer, test string, m Metric) {
		of, against := work(tool, kind, op, bytes), Work{Tool: peer, Kind: kind, Op: test, Bytes: bytes}
		all = append(all, Figure{name, Measure{of, m}, Measure{against, m}, kind == Ping, 0, 0})
	}
	beside("exec: ib_write_lat 8 B, of UCX over TCP, put_lat", ExecName, Ping, "write", word, "UCX-TCP", "ucp_put_lat", P50)
	beside("exec: ib_send_lat 8 B, of UCX over TCP, tag_lat", ExecName, Ping, "send", word, "UCX-TCP", "tag_lat", P50)
	beside("exec: ib_write_bw 1 MiB, of UCX over TCP, tag_bw", ExecName, Stream, "write", mib, "UCX-TCP", "tag_bw", Throughput)
	beside("exec: ib_write_bw 1 MiB, of UCX over posix,cma, tag_bw", ExecName, Stream, "write", mib, "UCX-shared", "tag_bw", Throughput)
	beside("exec --share-memory: the same", ExecSharedName, Stream, "write", mib, "UCX-shared", "tag_bw", Throughput)
	return all
}

// Figures are what is measured on the path.
func (p *Path) Figures() []Figure {
	if p.place != nil {
		return guestFigures()
	}
	return Figures(p.Device == [2]string{})
}
