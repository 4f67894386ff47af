//go:build interop && linux

package console

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"softrdma/internal/console"
	"softrdma/internal/control"
	fabric "softrdma/internal/fabric/control"
	"softrdma/internal/object"
	"softrdma/internal/sampler"
	"softrdma/internal/topology"
)

// A pretender serves the page with snapshots of its own. Each shows a second more.
type pretender struct {
	*httptest.Server
	mu   sync.Mutex
	sent int // snapshots
	next func(second int) any
}

func pretend(t *testing.T, next func(second int) any) *pretender {
	t.Helper()
	t.Setenv("SOFTRDMA_CONTROL_DIR", t.TempDir())
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pretender{next: next}
	page := console.New("secret", l.Addr().(*net.TCPAddr).AddrPort(), "")
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer := p.answer(r.URL.Path); answer != nil && r.Header.Get(console.TokenHeader) == "secret" {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer) // the browser has gone
			return
		}
		page.ServeHTTP(w, r)
	}))
	p.Listener.Close()
	p.Listener = l
	p.Start()
	t.Cleanup(p.Close)
	return p
}

// answer returns what the console says of programs that do not exist, nil for everything else.
func (p *pretender) answer(path string) any {
	switch {
	case path == "/api/snapshot":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.sent++
		return p.next(p.sent)
	case strings.HasSuffix(path, "/objects"):
		return object.List{}
	case strings.HasSuffix(path, "/faults"):
		return map[string]any{"rules": []int{}, "hits": []string{}, "on": []string{}}
	case strings.Contains(path, "/qps/"):
		return map[string]any{"lines": []string{"00:00:00.000001 refused RNR_NAK", "00:00:00.000002 state RTS -> ERR"}}
	case strings.Contains(path, "/fabrics/"):
		return fabric.Reply{Deadlock: &fabric.Deadlock{Cycle: []fabric.Channel{}, Still: []fabric.Lane{}, Deadlock: []fabric.Channel{}}}
	}
	return nil
}

// snapshots returns how many the page has asked for.
func (p *pretender) snapshots() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// url is the address of a view.
func (p *pretender) url(view string) string { return p.URL + "/#token=secret/" + view }

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// programs returns programs, each with a device that has so many queue pairs to the next program's.
func programs(names []string, n, qps, second int) *console.Snapshot {
	s := &console.Snapshot{Report: &sampler.Report{Time: epoch.Add(time.Duration(second) * time.Second), Seconds: 1, Processes: []sampler.ProcessReport{}}, Fabrics: []console.Fabric{}}
	address := func(i int) string {
		return netip.AddrFrom4([4]byte{10, 0, byte(i % n >> 8), byte(i % n)}).String() + ":4791"
	}
	for i := range n {
		d := sampler.DeviceReport{Info: control.Info{Name: fmt.Sprintf("eth%d", i), Protocol: "RoCE v2", Address: address(i), Device: fmt.Sprintf("eth%d", i),
			State: "active", MTU: 4096, Counters: map[string]uint64{}, Time: s.Time}, Reasons: []sampler.ReasonReport{}}
		d.Rates = &sampler.DeviceRates{Sent: wave(1e9, i, second), Received: wave(1e9, i+n-1, second)}
		for k := range qps {
			number, peer := uint32(0x100+k), uint32(0x100+k^1)
			q := sampler.QPReport{QP: object.QP{Number: number, Type: "RC", State: "RTS", Peer: address(i + n - 1), PeerQP: peer, PathMTU: 4096, Sends: k % 7,
				Measured: &object.Measurements{RoundTrip: 12000 + time.Duration(wave(4000, k, second)), Window: int(wave(1e6, k, second))}}}
			if k%2 == 0 {
				q.Peer = address(i + 1)
			}
			q.Rates = &sampler.QPRates{ReceivedBytes: wave(1e9, i+k+1, second), ConnectionRates: &sampler.ConnectionRates{
				SentBytes: wave(1e9, i+k, second), SentPackets: wave(3e5, k, second), ReceivedPackets: wave(3e5, k+1, second),
			}}
			d.QPs = append(d.QPs, q)
		}
		s.Processes = append(s.Processes, sampler.ProcessReport{PID: 1000 + i, Program: names[i%len(names)], Args: []string{}, Devices: []sampler.DeviceReport{d}})
	}
	return s
}

// wave returns a rate that differs from one second to the next.
func wave(most float64, i, second int) float64 {
	return most * float64((i*7919+second*104729)%1000+1) / 1000
}

// fabrics returns a fabric of a shape with traffic on its cables, of which one is cut.
func fabrics(t *testing.T, shape string, second int) console.Fabric {
	t.Helper()
	f, err := topology.Generate(shape)
	if err != nil {
		t.Fatal(err)
	}
	names, st := f.Names(), &fabric.Status{Links: make(map[string]int), Manager: fabric.Manager{LID: 1, Node: "node-0"}}
	x := console.Fabric{PID: 999, Name: "blue", Status: st}
	for i := range f.Nodes {
		n := fabric.Node{Name: names[i], Kind: "adapter", Ports: f.Nodes[i].NumPorts(), LIDs: []uint16{uint16(i + 1)}}
		if f.Nodes[i].Kind == topology.Switch {
			n.Kind = "switch"
			st.Switches++
		} else {
			st.Adapters++
		}
		st.Nodes = append(st.Nodes, n)
		for p := 1; p <= n.Ports; p++ {
			e := topology.End{Node: i, Port: p}
			peer := f.Port(e).Peer
			if peer.Port == 0 || peer.Node < i {
				continue
			}
			l := fabric.Link{State: fabric.LinkActive, Width: "4x", Speed: "EDR", Rate: 100e9}
			for k, end := range []topology.End{e, peer} {
				l.Ends[k] = fabric.LinkEnd{Name: f.PortName(names[end.Node], end), Node: names[end.Node], Port: end.Port,
					Switch: f.Nodes[end.Node].Kind == topology.Switch, Load: wave(0.9, i+p*k, second), MTU: 4096, VLs: 8}
			}
			if len(x.Links) == 5 {
				l.State, l.Rate, l.Ends[0].Errors, l.Ends[0].Load, l.Ends[1].Load = fabric.LinkCut, 0, 12, 0, 0
			}
			st.Links[l.State]++
			x.Links = append(x.Links, l)
		}
	}
	return x
}
