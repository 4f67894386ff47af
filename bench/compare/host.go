package compare

import (
	"fmt"
	"os"
	"slices"

	"softrdma/bench/loop"
)

// hostDirectory is the environment variable that names the directory in which devices
// of one machine find each other.
const hostDirectory = "SOFTRDMA_HOST_DIR"

// Host returns the path through the memory of this machine. Its devices find each other
// in a directory of their own.
func Host() (*Path, error) {
	dir, err := os.MkdirTemp("", "softrdma-bench-")
	if err != nil {
		return nil, fmt.Errorf("directory of the devices of one machine: %w", err)
	}
	p := Loopback()
	p.Name, p.sameHost = "one machine, through memory", "require"
	env := []string{"env", hostDirectory + "=" + dir}
	p.Inside = [2][]string{env, env}
	p.close = func() { os.RemoveAll(dir) }
	return p, nil
}

// hostFigures returns the figures for the path through memory.
func hostFigures() []Figure {
	return slices.Concat(hostStreams(), hostPings(), hostUsers(), messageFigures(true), programFigures(true))
}

const ordinary = "ordinary"

// hostStreams returns the figures about throughput. Memory is ordinary unless the name
// says that both ends use AllocMemory.
func hostStreams() []Figure {
	rdma := func(op, memory string) Work {
		return Work{Tool: "softrdma", Kind: Stream, Op: op, Bytes: mib, Memory: memory}
	}
	ucx := Work{Tool: "UCX-shared", Kind: Stream, Op: "ucp_put_bw", Bytes: mib}
	ucxOrdinary := ucx
	ucxOrdinary.Memory = ordinary
	memcpy := Work{Tool: RawMemoryName, Kind: Stream, Op: loop.OpMemcpy, Bytes: mib}
	iperf := Work{Tool: "iperf3", Kind: Stream, Bytes: mib}
	write, alloc := rdma("write", ordinary), rdma("write", "")
	sleeping := write
	sleeping.Events = true
	words := Work{Tool: "softrdma", Kind: Stream, Op: "write", Bytes: word}
	tags := Work{Tool: "UCX-shared", Kind: Stream, Op: "tag_bw", Bytes: word}
	at := func(w Work, m Metric) Measure { return Measure{w, m} }
	return []Figure{
		{"1 MiB WRITE, of memcpy on one core", at(write, Throughput), at(memcpy, Throughput), false, .5, .8},
		{"1 MiB WRITE, of UCX over posix,cma, put_bw", at(write, Throughput), at(ucx, Throughput), false, .8, 1},
		{"1 MiB WRITE, of UCX over posix,cma, put_bw from the heap", at(write, Throughput), at(ucxOrdinary, Throughput), false, .8, 1},
		{"AllocMemory: 1 MiB WRITE, of UCX over posix,cma, put_bw", at(alloc, Throughput), at(ucx, Throughput), false, 1, 1.3},
		{"AllocMemory: 1 MiB WRITE, of memcpy on one core", at(alloc, Throughput), at(memcpy, Throughput), false, 0, 0},
		{"1 MiB WRITE, of iperf3 with cubic", at(write, Throughput), at(iperf, Throughput), false, 1.2, 1.8},
		{"1 MiB READ, of WRITE", at(rdma("read", ordinary), Throughput), at(write, Throughput), false, .85, 1},
		{"1 MiB SEND, of WRITE", at(rdma("send", ordinary), Throughput), at(write, Throughput), false, .85, 1},
		{"AllocMemory: 1 MiB READ, of WRITE", at(rdma("read", ""), Throughput), at(alloc, Throughput), false, .85, 1},
		{"AllocMemory: 1 MiB SEND, of WRITE", at(rdma("send", ""), Throughput), at(alloc, Throughput), false, .85, 1},
		{"CPU time of 1 MiB WRITE, of iperf3", at(write, CPU), at(iperf, CPU), true, .7, .4},
		{"CPU time of 1 MiB WRITE sleeping, of iperf3", at(sleeping, CPU), at(iperf, CPU), true, .7, .4},
		{"8 B WRITE rate, of UCX over posix,cma, tag_bw", at(words, Rate), at(tags, Rate), false, .5, 1.5},
	}
}

// hostPings returns the figures about latency. Both ends use AllocMemory.
func hostPings() []Figure {
	ping := func(tool, op string) Work { return Work{Tool: tool, Kind: Ping, Op: op, Bytes: word} }
	write, atomic, asleep := ping("softrdma", "write"), ping("softrdma", "atomic"), ping("softrdma", "send")
	asleep.Events = true
	at := func(w Work, m Metric) Measure { return Measure{w, m} }
	return []Figure{
		{"8 B WRITE latency, of a cache line", at(write, P50), at(ping(RawMemoryName, loop.OpCacheLine), P50), true, 12, 6},
		{"8 B WRITE latency, of UCX over posix,cma, tag_lat", at(write, P50), at(ping("UCX-shared", "tag_lat"), P50), true, 4, 2},
		{"8 B WRITE latency, of UCX over TCP, tag_lat", at(write, P50), at(ping("UCX-TCP", "tag_lat"), P50), true, .2, .1},
		{"8 B WRITE latency, p99 of p50", at(write, P99), at(write, P50), true, 0, 0},
		{"8 B fetch-and-add latency, of WRITE", at(atomic, P50), at(write, P50), true, 2, 1},
		{"8 B SEND latency sleeping, of a futex", at(asleep, P50), at(ping(RawMemoryName, loop.OpFutex), P50), true, 1.6, 1.2},
	}
}

// socketBytes is the length of a message of a ping-pong over sockets.
const socketBytes = 64

// hostUsers returns the figures about what uses devices: sockets, programs under
// `softrdma exec`, and nothing.
func hostUsers() []Figure {
	stream := func(tool, op string) Work { return Work{Tool: tool, Kind: Stream, Op: op, Bytes: mib} }
	ping := func(tool, op string) Work {
		return Work{Tool: tool, Kind: Ping, Op: op, Bytes: socketBytes, Events: true}
	}
	program := func(tool string, kind Kind, bytes int) Work {
		return Work{Tool: tool, Kind: kind, Op: "write", Bytes: bytes, MTU: 4096}
	}
	idle := Work{Tool: "softrdma", Kind: Idle, QPs: 1000}
	at := func(w Work, m Metric) Measure { return Measure{w, m} }
	return []Figure{
		{"rdmanet stream, of TCP with cubic", at(stream(RDMANetName, ""), Throughput), at(stream("kernel", loop.OpTCP), Throughput), false, 1.3, 2},
		{"rdmanet 64 B ping-pong, of TCP", at(ping(RDMANetName, ""), P50), at(ping("kernel", loop.OpTCP), P50), true, .5, .25},
		{"ib_write_lat 8 B, an exec each, of one daemon", at(program(ProgramName, Ping, word), P50), at(program(ExecName, Ping, word), P50), true, 1.5, 1.1},
		{"ib_write_bw 64 KiB, an exec each, of one daemon", at(program(ProgramName, Stream, block), Throughput), at(program(ExecName, Stream, block), Throughput), false, .7, .9},
		{"wake-ups of an idle device", at(idle, Wakeups), Measure{}, true, 0, 0},
	}
}
