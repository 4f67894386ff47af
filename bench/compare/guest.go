package compare

import "context"

// A Machine runs both ends of a path: a virtual machine that has this machine's
// programs in its file system.
type Machine interface {
	// Serve starts a program, waits until it prints ready, and returns a function
	// that stops it.
	Serve(ctx context.Context, ready string, argv ...string) (stop func(), err error)

	// Run runs a program, waits for it and returns its output.
	Run(ctx context.Context, argv ...string) ([]byte, error)
}

// Guest returns the path over the loopback interface of a virtual machine whose kernel
// has an RDMA device for Perftest. Closing the path calls end.
func Guest(m Machine, end func()) *Path {
	p := Loopback()
	p.Name, p.machine, p.close = "loopback of a virtual machine", m, end
	p.port = 4793 // Linux's rxe uses RoCE's port on all addresses
	return p
}

// block is perftest's default message size.
const block = 64 << 10

// guestFigures returns the figures that compare softrdma and the kernel's Soft RoCE in
// one virtual machine.
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

// execFigures returns the figures of perftest under `softrdma exec`, compared with
// perftest on the kernel's Soft RoCE and with UCX, in a virtual machine.
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
	}
	add("exec: ib_write_bw 1 MiB", ExecName, Stream, "write", mib, Throughput, 2, 4)
	add("exec: ib_write_bw 8 B", ExecName, Stream, "write", word, Rate, 2, 5)
	program := func(name string, kind Kind, bytes int, m Metric, gate, stretch float64) {
		for _, x := range [][2]string{{ProgramMemoryName, "through memory"}, {ProgramName, "over UDP"}} {
			of, against := work(x[0], kind, "write", bytes), work(RxeName, kind, "write", bytes)
			all = append(all, Figure{name + " " + x[1] + ", of rxe", Measure{of, m}, Measure{against, m}, kind == Ping, gate, stretch})
		}
	}
	program("programs: ib_write_lat 8 B", Ping, word, P50, 4, 3)
	program("programs: ib_write_bw 64 KiB", Stream, block, Throughput, 2, 3)
	// UCX has no gates here, as the virtual machine's processors may be emulated.
	withUCX := func(name, tool string, kind Kind, op string, bytes int, peer, test string, m Metric) {
		of, against := work(tool, kind, op, bytes), Work{Tool: peer, Kind: kind, Op: test, Bytes: bytes}
		all = append(all, Figure{name, Measure{of, m}, Measure{against, m}, kind == Ping, 0, 0})
	}
	withUCX("exec: ib_write_lat 8 B, of UCX over TCP, put_lat", ExecName, Ping, "write", word, "UCX-TCP", "ucp_put_lat", P50)
	withUCX("exec: ib_send_lat 8 B, of UCX over TCP, tag_lat", ExecName, Ping, "send", word, "UCX-TCP", "tag_lat", P50)
	withUCX("exec: ib_write_bw 1 MiB, of UCX over TCP, tag_bw", ExecName, Stream, "write", mib, "UCX-TCP", "tag_bw", Throughput)
	withUCX("exec: ib_write_bw 1 MiB, of UCX over posix,cma, tag_bw", ExecName, Stream, "write", mib, "UCX-shared", "tag_bw", Throughput)
	return all
}

// Figures returns the figures for the path.
func (p *Path) Figures() []Figure {
	if p.machine != nil {
		return guestFigures()
	}
	if p.sameHost != "" {
		return hostFigures()
	}
	return Figures(p.Device == [2]string{})
}
