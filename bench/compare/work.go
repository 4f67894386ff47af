package compare

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"time"

	"softrdma/bench/loop"
)

// A Kind is a kind of measurement.
type Kind = loop.Kind

// The kinds of a Work.
const (
	Stream      = loop.Stream
	Ping        = loop.Ping
	Idle   Kind = "idle" // idle connections
)

// A Work describes one measurement of one tool. It is comparable, so that several
// figures can share a measurement.
type Work struct {
	Tool   string
	Kind   Kind
	Op     string // of the tool: write, read, send; tag_bw, put_lat, …
	Bytes  int    // of a message
	MTU    int    // path MTU of RDMA, 0 for the path's
	Events bool   // wait for events instead of polling

	QPs int // number of queue pairs, see ScalingConfig; 0 means one, with softrdma perf

	Protocol string // value of softrdma's --protocol; "" means RoCE v2
	Observed bool   // metrics are scraped and the console is open
	Memory   string // "ordinary", or "" for memory that the tool allocates for the purpose
}

// String returns the name of the work in the report.
func (w Work) String() string {
	s := w.Tool
	if w.Protocol != "" {
		s += " " + w.Protocol
	}
	if w.Op != "" {
		s += " " + w.Op
	}
	if w.Kind == Idle {
		s += " idle"
	} else {
		s += " " + sizeName(w.Bytes)
	}
	if w.QPs != 0 {
		s += fmt.Sprintf(" over %d queue pairs", w.QPs)
	}
	if w.Memory != "" {
		s += ", " + w.Memory + " memory"
	}
	if w.MTU != 0 {
		s += fmt.Sprintf(", MTU %d", w.MTU)
	}
	if w.Events {
		s += ", sleeping"
	}
	if w.Observed {
		s += ", observed"
	}
	return s
}

func sizeName(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// A Result is the result of a measurement. Fields that do not apply are zero.
type Result struct {
	loop.Result

	Memory      float64 `json:"idle_qp_bytes,omitempty"` // of a connected, unused queue pair
	Allocations float64 `json:"allocations,omitempty"`   // per operation
	Idle        float64 `json:"idle_cores,omitempty"`    // CPU usage of an idle device
	Wakeups     float64 `json:"idle_wakeups,omitempty"`  // context switches of an idle device's process

	Resident float64 `json:"library_bytes,omitempty"`   // of a device in an idle program
	Start    float64 `json:"library_start_s,omitempty"` // that such a device adds to a program's start
}

// A Tool measures one implementation. Run starts both ends on the path, waits for the
// result and stops all its processes.
type Tool interface {
	Name() string
	Check() error // the reason why the tool is not available, or nil
	Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error)
}

// A Path is the network path between the two ends.
type Path struct {
	Name   string
	MTU    int // of the interfaces, bytes
	Client netip.Addr
	Server netip.Addr
	Inside [2][]string // prefixes of the client's and the server's command lines
	Device [2]string   // network interfaces of the client and the server, if they matter
	close  func()

	machine Machine // the machine that runs both ends, nil for this one
	port    uint16  // UDP port of softrdma's devices, 0 for RoCE's

	sameHost string // value of softrdma's --same-host; "" means off

	devices [2]string // of softrdma, "" for the one at the end's address
}

// device returns the name of softrdma's device at an end.
func (p *Path) device(end int) string {
	if d := p.devices[end]; d != "" {
		return d
	}
	addr := [2]netip.Addr{p.Client, p.Server}[end]
	if p.port == 0 {
		return addr.String()
	}
	return netip.AddrPortFrom(addr, p.port).String()
}

// sameHostMode returns the value of softrdma's --same-host.
func (p *Path) sameHostMode() string { return cmp.Or(p.sameHost, "off") }

// Close removes what was created for the path.
func (p *Path) Close() {
	if p.close != nil {
		p.close()
	}
}

// Loopback returns the path over the loopback interface.
func Loopback() *Path {
	return &Path{Name: "loopback", MTU: 65536, Client: netip.MustParseAddr("127.12.0.1"), Server: netip.MustParseAddr("127.12.0.2")}
}
