package node

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"softrdma/internal/fabric/port"
	"softrdma/internal/management/hardware"
	"softrdma/internal/wire/ib"
	"softrdma/internal/wire/mad/smp"
)

// A relay is a switch whose ports are active, with the other ends of its links.
type relay struct {
	n    *Node
	now  time.Duration
	sent []ib.Blocks // by the switch, on lane 0 of each port
}

// newRelay routes LID 1 to port 1 and so on.
func newRelay(ports int) *relay {
	r := &relay{n: New(Config{Switch: true, Ports: ports, Port: port.Config{Refresh: port.Never, VLs: 1}}), sent: make([]ib.Blocks, ports+1)}
	var t smp.LinearForwarding
	for i := range t {
		t[i] = smp.NoPort
	}
	for i := 1; i <= ports; i++ {
		t[i] = uint8(i)
		r.n.Connect(0, i, linkQDR4x)
		r.n.Configure(i, &hardware.PortConfig{MTU: 4096, VLs: 1, HOQLife: hardware.Unlimited})
		r.n.SetLink(i, hardware.LinkArm)
		r.n.SetLink(i, hardware.LinkActivate)
		r.grant(i)
	}
	r.n.SetForwarding(0, &t)
	r.n.ConfigureSwitch(&hardware.SwitchConfig{LinearTop: 63, LifeTime: hardware.Unlimited})
	r.run()
	return r
}

// grant lets the switch send as much as it may.
func (r *relay) grant(number int) {
	frame := r.n.Pool().Buffer(ib.FlowControlLen)
	(&ib.FlowControl{Limit: r.sent[number].Add(port.MaxBuffer)}).Put(frame)
	r.n.Receive(r.now, number, frame)
}

// run takes all frames that leave, and returns how many packets were among them.
func (r *relay) run() (packets int) {
	for {
		number, frame := r.n.Next(r.now)
		if frame == nil {
			next := r.n.Deadline()
			if next == port.Never {
				return packets
			}
			r.now = next
			continue
		}
		if len(frame) > ib.FlowControlLen {
			packets++
			before := r.sent[number]
			r.sent[number] = before.Add(ib.PacketBlocks(uint16(len(frame) / 4)))
			if before/1024 != r.sent[number]/1024 {
				r.grant(number)
			}
		}
		r.n.Pool().Recycle(frame)
	}
}

// BenchmarkHop is a packet through a switch: check, route, queue, arbitration, credits of
// both links, and the copy with which the packet is made.
func BenchmarkHop(b *testing.B) {
	for _, ports := range []int{2, 36} {
		for _, size := range []int{64, 2048, 4096} {
			b.Run(fmt.Sprintf("ports=%d/size=%d", ports, size), func(b *testing.B) {
				r := newRelay(ports)
				frames := make([][]byte, ports)
				for i := range frames {
					h := ib.LRH{Next: ib.LocalBTH, DLID: ib.LID(i + 1), SLID: 99}
					frames[i] = ib.AppendNative(nil, h, nil, &ib.Packet{BTH: ib.BTH{Opcode: ib.UDSendOnly, PKey: 0xffff}, Payload: make([]byte, size)})
				}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				packets := 0
				for b.Loop() {
					// Each iteration is one packet on average: as many as ports, in a row.
					if packets > 0 {
						packets--
						continue
					}
					for in := 1; in <= ports; in++ {
						frame := frames[in%ports]
						buf := r.n.Pool().Buffer(len(frame))
						copy(buf, frame)
						r.n.Receive(r.now, in, buf)
					}
					if packets = r.run(); packets != ports {
						b.Fatalf("%d packets left, expected %d", packets, ports)
					}
					packets--
				}
			})
		}
	}
}

// A node of a large fabric is small: a switch of 36 ports with its tables as a manager
// programs them for 2,048 LIDs, and an adapter.
func TestMemoryOfIdleNodes(t *testing.T) {
	const count = 50
	var before, after runtime.MemStats
	for _, c := range []struct {
		config Config
		limit  uint64
	}{{Config{Ports: 1}, 6 << 10}, {Config{Switch: true, Ports: 36}, 100 << 10}} {
		var pool port.Pool
		c.config.Pool = &pool
		nodes := make([]*Node, count)
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range nodes {
			n := New(c.config)
			for number := 1; number <= n.Ports(); number++ {
				n.Connect(0, number, linkQDR4x)
				for in := range n.Ports() + 1 {
					n.SetSLtoVL(in, number, &smp.SLtoVL{1, 2, 3})
				}
				for half := smp.ArbitrationLow; half <= smp.ArbitrationHighUpper; half++ {
					n.SetArbitration(number, half, &smp.VLArbitration{})
				}
			}
			if n.config.Switch {
				for block := range 2048 / 64 {
					n.SetForwarding(block, &smp.LinearForwarding{})
				}
				n.SetMulticast(0, 0, &smp.MulticastForwarding{})
			}
			nodes[i] = n
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		each := (after.HeapAlloc - before.HeapAlloc) / count
		if each > c.limit {
			t.Errorf("%d ports: %d bytes a node, expected at most %d", c.config.Ports, each, c.limit)
		}
		t.Logf("%d ports: %d bytes a node", c.config.Ports, each)
		runtime.KeepAlive(nodes)
	}
}
