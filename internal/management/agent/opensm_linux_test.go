package agent

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

// A plug is one end of a link.
type plug struct{ node, port int }

// simulated is a fabric of two switches and three adapters, of agents alone:
// packets of management reach them at once.
type simulated struct {
	mu     sync.Mutex
	nodes  []*Agent
	boards []*board
	wires  map[plug]plug
	// local takes the packets for the programs of the first adapter.
	local func(m *[mad.Len]byte, slid uint16, sqpn uint32)
	// refused are the responses with a status other than zero.
	refused []string
}

func newSimulated() *simulated {
	s := &simulated{wires: map[plug]plug{}}
	for i := range 5 {
		var c *Config
		if i < 2 {
			c = switchConfig(4)
			c.NodeGUID += uint64(i) << 8
			c.PortGUIDs = []uint64{c.NodeGUID}
		} else {
			c = adapterConfig(1)
			c.NodeGUID += uint64(i) << 8
			c.PortGUIDs[0] += uint64(i) << 8
		}
		c.SystemImageGUID, c.Description = c.NodeGUID, fmt.Sprintf("node %d", i)
		b := newBoard(c.NumPorts)
		s.boards, s.nodes = append(s.boards, b), append(s.nodes, New(c, b))
	}
	for _, w := range [][2]plug{{{2, 1}, {0, 1}}, {{3, 1}, {0, 2}}, {{0, 3}, {1, 3}}, {{4, 1}, {1, 1}}} {
		s.wires[w[0]], s.wires[w[1]] = w[1], w[0]
	}
	for i, b := range s.boards {
		for p := 1; p < len(b.links); p++ {
			if _, ok := s.wires[plug{i, p}]; !ok {
				b.links[p].State, b.links[p].Physical = smp.PortDown, smp.PhysicalPolling
			}
			s.nodes[i].LinkChanged(0, p)
		}
	}
	return s
}

// host is the adapter with the programs.
const host = 2

// send carries a packet of a program, and all that follows from it, to its end.
func (s *simulated) send(m *[mad.Len]byte, dlid uint16, qpn, sqpn uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.nodes[host]
	slid, _ := a.LID(1)
	if dlid == smp.PermissiveLID {
		slid = smp.PermissiveLID
	}
	in := Arrival{Port: 1, SLID: slid, DLID: dlid, QPN: qpn, SourceQPN: sqpn, PKey: 0xffff, MAD: m}
	var out Departure
	if qpn != 0 {
		out.Port, out.SLID, out.DLID, out.MAD, out.QPN, out.SourceQPN = 1, slid, dlid, *m, qpn, sqpn
		if a.ends[1].owns(dlid) {
			s.arrive(host, &in)
			return
		}
		s.deliver(host, Send, &out)
		return
	}
	s.deliver(host, a.Originate(0, &in, &out), &out)
}

// deliver brings what leaves a node to the next.
func (s *simulated) deliver(node int, o Outcome, out *Departure) {
	switch {
	case o == Local && node == host:
		s.local(&out.MAD, out.SLID, out.SourceQPN)
	case o == Send:
		port := out.Port
		if port == 0 {
			port = s.route(node, out.DLID)
		}
		if to, ok := s.wires[plug{node, port}]; ok {
			s.arrive(to.node, &Arrival{Port: to.port, SLID: out.SLID, DLID: out.DLID, QPN: out.QPN, SourceQPN: out.SourceQPN, PKey: 0xffff, MAD: &out.MAD})
		}
	}
}

func (s *simulated) route(node int, dlid uint16) int {
	return int(s.boards[node].linear[int(dlid)/64][dlid%64])
}

// arrive hands a packet to a node, which may be on its way.
func (s *simulated) arrive(node int, in *Arrival) {
	a := s.nodes[node]
	if a.isSwitch() && in.DLID != smp.PermissiveLID {
		if port := s.route(node, in.DLID); port != 0 {
			s.deliver(node, Send, &Departure{Port: port, SLID: in.SLID, DLID: in.DLID, QPN: in.QPN, SourceQPN: in.SourceQPN, MAD: *in.MAD})
			return
		}
	}
	var out Departure
	request := *in.MAD
	o := a.Receive(0, in, &out)
	if o == Local && out.SLID == 0 {
		out.SLID, out.SourceQPN = in.SLID, in.SourceQPN
	}
	if status := binary.BigEndian.Uint16(out.MAD[4:]) & 0x7fff; o == Send && status != 0 && request[3]&0x80 == 0 {
		s.refused = append(s.refused, fmt.Sprintf("node %d: method %#x, attribute %#x, modifier %#x: status %#x", node, request[3],
			binary.BigEndian.Uint16(request[16:]), binary.BigEndian.Uint32(request[20:]), status))
	}
	s.deliver(node, o, &out)
}

// serve is the protocol of ibsim's clients, by which programs with
// libumad2sim.so send and receive management packets at the host.
func (s *simulated) serve(t *testing.T, name string) (stop func()) {
	t.Helper()
	listen := func(n string) *net.UnixConn {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "@" + n + "\x00", Net: "unixgram"})
		if err != nil {
			t.Skipf("no abstract sockets: %v", err)
		}
		return c
	}
	control, data := listen(name+":ctl"), listen(name+":out0")
	var client *net.UnixAddr
	var clientLock sync.Mutex
	s.local = func(m *[mad.Len]byte, slid uint16, sqpn uint32) {
		b := make([]byte, 288)
		le := binary.LittleEndian
		le.PutUint32(b[4:], uint32(bits.ReverseBytes16(slid)))
		binary.BigEndian.PutUint32(b[12:], sqpn)
		binary.BigEndian.PutUint64(b[24:], mad.Len)
		copy(b[32:], m[:])
		clientLock.Lock()
		defer clientLock.Unlock()
		_, _ = data.WriteToUnix(b[:288], client)
	}
	go func() {
		var b [80]byte
		for {
			n, from, err := control.ReadFromUnix(b[:])
			if err != nil || n < len(b) {
				return
			}
			from.Name += "\x00" // package net cuts it off
			s.control(b[:], func() {
				clientLock.Lock()
				defer clientLock.Unlock()
				client = &net.UnixAddr{Name: strings.Replace(from.Name, ":ctl", ":in", 1), Net: "unixgram"}
			})
			_, _ = control.WriteToUnix(b[:], from)
		}
	}()
	go func() {
		b := make([]byte, 288)
		for {
			if n, err := data.Read(b); err != nil || n < 288 {
				return
			}
			m := [mad.Len]byte(b[32:])
			s.send(&m, bits.ReverseBytes16(binary.LittleEndian.Uint16(b)), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:]))
		}
	}()
	return func() {
		control.Close()
		data.Close()
	}
}

// control answers a question of a client about its adapter, in place.
func (s *simulated) control(b []byte, connect func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, d := s.nodes[host], b[16:]
	in := &Arrival{Port: 1}
	attribute := (*[smp.DataLen]byte)(d)
	switch binary.LittleEndian.Uint32(b[8:]) {
	case 1: // connect: client 0
		clear(d[:4])
		copy(d[12:44], "host\x00")
		connect()
	case 3: // port
		info := a.portInfo(1)
		binary.LittleEndian.PutUint16(d, info.LID)
		d[2] = uint8(info.State)
	case 4: // vendor
		clear(d[:24])
	case 5: // GID
		g, _ := a.GID(1, 0)
		copy(d, g[:])
	case 6: // GUID
		binary.BigEndian.PutUint64(d, a.portGUID(1))
	case 7:
		clear(d)
		a.subnet.getNodeInfo(in, nil, attribute)
	case 8:
		clear(d)
		a.subnet.getPortInfo(in, &smp.Packet{Modifier: 1}, attribute)
	case 9:
		a.SetCapability(0, 1, smp.CapSM, binary.LittleEndian.Uint32(d) != 0)
	case 10:
		clear(d)
		d[0], d[1] = 0xff, 0xff
	}
}

// run runs a program at the host and returns what it prints.
func run(t *testing.T, library, socket, program string, args ...string) string {
	t.Helper()
	c := exec.Command(program, args...)
	dir := t.TempDir()
	c.Env = append(os.Environ(), "LD_PRELOAD="+library, "IBSIM_SOCKNAME="+socket, "OSM_TMP_DIR="+dir, "OSM_CACHE_DIR="+dir, "SIM_HOST=host")
	timer := time.AfterFunc(2*time.Minute, func() { _ = c.Process.Kill() })
	defer timer.Stop()
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// TestOpensmSweepsTheAgents has Debian's opensm configure a fabric of agents, and
// its tools read it.
func TestOpensmSweepsTheAgents(t *testing.T) {
	library := ""
	for _, p := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"} {
		if _, err := os.Stat(filepath.Join(p, "umad2sim/libumad2sim.so")); err == nil {
			library = filepath.Join(p, "umad2sim/libumad2sim.so")
		}
	}
	opensm, err := exec.LookPath("opensm")
	if err != nil || library == "" {
		t.Skip("opensm or libumad2sim is not installed: sweeps of opensm are not tested")
	}
	s := newSimulated()
	socket := fmt.Sprintf("softrdma%d", os.Getpid())
	defer s.serve(t, socket)()
	log := filepath.Join(t.TempDir(), "opensm.log")
	out := run(t, library, socket, opensm, "-o", "-f", log, "-D", "0x03")
	if text, _ := os.ReadFile(log); !strings.Contains(string(text), "SUBNET UP") || strings.Contains(string(text), "ERR") {
		t.Fatalf("opensm printed\n%s\nand logged\n%s", out, text)
	}
	s.mu.Lock()
	for _, r := range s.refused {
		t.Error(r)
	}
	seen := map[uint16]bool{}
	for i, a := range s.nodes {
		lid, _ := a.LID(min(1, i/2))
		if lid == 0 || seen[lid] {
			t.Errorf("node %d has LID %d", i, lid)
		}
		seen[lid] = true
	}
	for end := range s.wires {
		if l := s.boards[end.node].links[end.port]; l.State != smp.PortActive {
			t.Errorf("port %d of node %d is %v", end.port, end.node, l.State)
		}
	}
	s.boards[4].counters[1].XmitPackets = 42
	lid, _ := s.nodes[4].LID(1)
	leaf, _ := s.nodes[0].LID(0)
	s.mu.Unlock()
	for _, c := range []struct {
		program string
		args    []string
		want    string
	}{
		{"ibnetdiscover", nil, "node 4"},
		{"smpquery", []string{"portinfo", fmt.Sprint(lid), "1"}, "LinkState:.......................Active"},
		{"smpquery", []string{"-D", "nodeinfo", "0,1,3,1"}, "Channel Adapter"},
		{"perfquery", []string{"-x", fmt.Sprint(lid), "1"}, "PortXmitPkts:....................42"},
		{"ibroute", []string{fmt.Sprint(leaf)}, "Unicast lids"},
		{"ibroute", []string{"-M", fmt.Sprint(leaf)}, "Multicast mlids"},
		{"smpquery", []string{"switchinfo", fmt.Sprint(leaf)}, "LinearFdbCap:....................49152"},
		{"smpquery", []string{"pkeys", fmt.Sprint(lid), "1"}, "0xffff"},
		{"smpquery", []string{"sl2vl", fmt.Sprint(leaf), "1"}, "in  3, out  1"},
		{"smpquery", []string{"vlarb", fmt.Sprint(leaf), "1"}, "VL"},
		{"smpquery", []string{"guidinfo", fmt.Sprint(lid)}, "0x0002c90000000501"},
		{"ibportstate", []string{fmt.Sprint(leaf), "2", "disable"}, "Disabled"},
		{"ibportstate", []string{fmt.Sprint(leaf), "2", "enable"}, "Initialize"},
		{"perfquery", []string{"-R", fmt.Sprint(lid), "1"}, ""},
		{"perfquery", []string{"-a", fmt.Sprint(leaf)}, "port 255"},
		{"perfquery", []string{"--rcvcc", fmt.Sprint(lid), "1"}, "PortPktRcvBECN:..................0"},
		{"perfquery", []string{"-T", fmt.Sprint(leaf), "1"}, "SyncHeaderErrorCounter:..........0"},
		{"perfquery", []string{"--slrcvfecn", fmt.Sprint(lid), "1"}, "PortSLRcvFECN15:.................0"},
		{"perfquery", []string{"--slrcvbecn", fmt.Sprint(lid), "1"}, "PortSLRcvBECN15:.................0"},
		{"perfquery", []string{"--xmitcc", fmt.Sprint(lid), "1"}, "PortXmitTimeCong:................0"},
		{"perfquery", []string{"--vlxmittimecc", "-r", fmt.Sprint(lid), "1"}, "PortVLXmitTimeCong14:............0"},
		{"perfquery", []string{"--swportvlcong", fmt.Sprint(leaf), "1"}, "SWPortVLCongestion15:............0"},
	} {
		if path, err := exec.LookPath(c.program); err == nil {
			if out := run(t, library, socket, path, c.args...); !strings.Contains(out, c.want) {
				t.Errorf("%s %v printed\n%s", c.program, c.args, out)
			}
		}
	}
}
