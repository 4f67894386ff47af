package compare

import "softrdma/bench/loop"

// iwarpFigures returns the figures of iWARP. It is compared with a TCP stream that uses
// the system's congestion control, as iWARP does.
func iwarpFigures() []Figure {
	rdma := func(k Kind, op string, bytes int) Work {
		return Work{Tool: "softrdma", Kind: k, Op: op, Bytes: bytes, Protocol: "iwarp"}
	}
	write, read := rdma(Stream, "write", mib), rdma(Stream, "read", mib)
	asleep := write
	asleep.Events = true
	stream := Work{Tool: "kernel", Kind: Stream, Op: loop.OpSystemTCP, Bytes: mib}
	spin := Work{Tool: "kernel", Kind: Ping, Op: loop.OpSystemTCP, Bytes: word}
	at := func(w Work, m Metric) Measure { return Measure{w, m} }
	return []Figure{
		{"iWARP 1 MiB WRITE, of a plain TCP stream", at(write, Throughput), at(stream, Throughput), false, .9, 1},
		{"iWARP 1 MiB READ, of WRITE", at(read, Throughput), at(write, Throughput), false, .85, 1},
		{"iWARP CPU time of 1 MiB WRITE sleeping, of a plain TCP stream", at(asleep, CPU), at(stream, CPU), true, 1.2, 1},
		{"iWARP 8 B WRITE latency, of TCP spinning", at(rdma(Ping, "write", word), P50), at(spin, P50), true, 1.3, 1.1},
		{"iWARP 8 B SEND latency, of TCP spinning", at(rdma(Ping, "send", word), P50), at(spin, P50), true, 1.3, 1.1},
	}
}
