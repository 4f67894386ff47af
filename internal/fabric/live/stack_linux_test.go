package live

import (
	"slices"
	"testing"
	"time"

	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/topology"
	"softrdma/internal/wire/ethernet"
	"softrdma/internal/wire/ib"
)

// No frame harms the stack of a host, with or without a program there.
func FuzzFramesForAHost(f *testing.F) {
	shape, err := topology.Generate("star:2")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{})
	for _, kind := range []uint16{ethernet.TypeIPv4, ethernet.TypeIPv6, ethernet.TypeRoCE, ethernet.TypeARP} {
		b := make([]byte, 200)
		at := (&ethernet.Header{Dst: dcb.Address(0x020000000002).MAC(), Type: kind}).Put(b)
		switch to := lan.IPv6(dcb.IPv4(10<<24 | 1)).Addr(); kind {
		case ethernet.TypeIPv4:
			ib.PutIP(b[at:], dcb.IPv4(10<<24|2).Addr(), dcb.IPv4(10<<24|1).Addr(), 0, 64, 0, 100)
		case ethernet.TypeIPv6:
			ib.PutIP(b[at:], to, to, 0, 64, 0, 100)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		n := newEthernet(&Fabric{config: Config{Fabric: shape, Ethernet: &Ethernet{Link: lan.Link{Port: dcb.PortConfig{Speed: dcb.Gbit}}}}, programs: map[int]*program{}})
		frame := n.lan.Pool().Frame()
		frame.Data = append(frame.Data[:0], data...)
		if frame.Parse(); frame.Op != 0 {
			return
		}
		host := slices.IndexFunc(shape.Nodes, func(n topology.Node) bool { return n.Kind != topology.Switch })
		if !n.deliver(0, topology.End{Node: host, Port: 1}, frame) {
			t.Error("a host without a program holds a frame")
		}
		n.run(0, time.Millisecond)
	})
}
