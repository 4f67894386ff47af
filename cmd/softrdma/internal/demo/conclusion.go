package demo

import (
	"fmt"
	"strings"

	"softrdma/cmd/softrdma/internal/measure"
	"softrdma/verbs"
)

// minComparable is the file size from which throughput is meaningful; below it the
// start-up time dominates.
const minComparable = 16 << 20

// conclusion summarises the figures in one sentence.
func (r *report) conclusion() string {
	memory, network, tcp := r.row(measure.OpWrite, verbs.PathSameHost), r.networkWrite(), r.tcp()
	switch {
	case len(r.Captures) > 0:
		return "In short: every operation works, but each packet was also written to disk: measure speed without --pcap."
	case network == nil || tcp == nil:
		return ""
	}
	s := "In short: with no RDMA hardware, RDMA WRITE "
	first := network
	if memory != nil {
		s, first = s+"through memory ", memory
	}
	if rate := r.rateBesideTCP(first, tcp); rate != "" {
		s += "moved the file " + rate + " and "
	}
	s += fmt.Sprintf("put 8 bytes into the other program's memory in %s, where TCP took %s", inText(first.P50), inText(tcp.P50))
	if memory != nil {
		s += "; through the network stack, which also reaches other machines, it "
		if rate := r.rateBesideTCP(network, tcp); rate != "" {
			s += "moved the file " + rate + " and "
		}
		s += "took " + inText(network.P50)
	}
	if r.Encrypted {
		s += "; RDMA was encrypted here, TCP was not"
	}
	return s + "."
}

// inText formats a time so that no line break separates the unit from the number.
func inText(µs float64) string { return strings.Replace(duration(µs), " ", "\u00a0", 1) }

// rateBesideTCP compares the rates of WRITE and TCP. It returns "" if the file is too
// small for that.
func (r *report) rateBesideTCP(write, tcp *resultRow) string {
	if r.Bytes < minComparable || write.Gbit == nil || tcp.Gbit == nil {
		return ""
	}
	return comparedToTCP(*write.Gbit / *tcp.Gbit)
}

// comparedToTCP describes a ratio of throughputs. Differences up to a tenth are within
// the variation of runs and are not mentioned.
func comparedToTCP(ratio float64) string {
	switch {
	case ratio < 0.9:
		return fmt.Sprintf("at %.0f\u00a0%% of TCP's rate", 100*ratio)
	case ratio <= 1.1:
		return "about as fast as TCP"
	}
	return fmt.Sprintf("at %.1f times TCP's rate", ratio)
}
