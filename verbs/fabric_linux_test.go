package verbs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/fabric/live"
	"softrdma/internal/fabric/subnet"
	"softrdma/internal/management/sm"
	"softrdma/internal/topology"
)

// fabricDevices opens a device on each adapter of a fabric, and waits until the subnet manager
// has configured their ports.
func fabricDevices(t *testing.T, x *fabrictest.Fabric) (devices []*Device) {
	t.Helper()
	prefix := fabricPrefix
	if x.Ethernet() {
		prefix = ethernetPrefix
	}
	for _, name := range x.Adapters {
		d, err := Open(prefix+name, Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		devices = append(devices, d)
	}
	for _, d := range devices {
		fabrictest.WaitFor(t, "an active port", func() bool { a := d.QueryPort(); return a.Active && (a.LID != 0 || x.Ethernet()) })
	}
	return devices
}

// A fabricEnd is a queue pair with its own buffer.
type fabricEnd struct {
	*QP
	cq *CQ
	mr *MR
}

func newFabricEnd(t *testing.T, d *Device, typ QPType) *fabricEnd {
	t.Helper()
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	mr, err := pd.RegisterMemory(make([]byte, 1<<20), LocalWrite|RemoteWrite|RemoteRead|RemoteAtomic)
	if err != nil {
		t.Fatal(err)
	}
	cq, err := d.CreateCQ(CQConfig{Depth: 128})
	if err != nil {
		t.Fatal(err)
	}
	q, err := pd.CreateQP(QPConfig{Type: typ, SendCQ: cq, MaxSend: 64, MaxRecv: 64})
	if err != nil {
		t.Fatal(err)
	}
	return &fabricEnd{q, cq, mr}
}

func (e *fabricEnd) wait(t *testing.T) WC {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var wc [1]WC
	for {
		if n, err := e.cq.Poll(wc[:]); err != nil {
			t.Fatal(err)
		} else if n == 1 {
			break
		}
		if err := e.cq.Wait(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := wc[0].Err(); err != nil {
		t.Fatal(err)
	}
	return wc[0]
}

func connectFabric(t *testing.T, a, b *fabricEnd, cfg ConnectConfig) {
	t.Helper()
	x, y := a.Endpoint(), b.Endpoint()
	if err := a.Connect(x, y, cfg); err != nil {
		t.Fatal(err)
	}
	if err := b.Connect(y, x, cfg); err != nil {
		t.Fatal(err)
	}
}

func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = byte(i)*7 + byte(i>>8) + seed
	}
}

func TestFabricMovesEveryOperation(t *testing.T) {
	everyOperationOn(t, fabrictest.Start(t, "star:3"))
}

func TestEthernetMovesEveryOperation(t *testing.T) {
	everyOperationOn(t, fabrictest.StartEthernet(t, "fat-tree:k=4,hosts=1", func(*live.Config) {}))
}

func everyOperationOn(t *testing.T, x *fabrictest.Fabric) {
	devices := fabricDevices(t, x)[:3]
	for _, typ := range []QPType{RC, UC} {
		for i := range devices {
			a, b := newFabricEnd(t, devices[i], typ), newFabricEnd(t, devices[(i+1)%len(devices)], typ)
			connectFabric(t, a, b, ConnectConfig{})
			t.Run(fmt.Sprintf("%v/%d", typ, i), func(t *testing.T) { everyOperation(t, a, b, typ) })
		}
	}
}

func everyOperation(t *testing.T, a, b *fabricEnd, typ QPType) {
	const n = 100_001
	here, there := a.mr.Bytes(), b.mr.Bytes()
	fill(here[:n], 1)
	post := func(w SendWR) {
		t.Helper()
		w.Flags |= Signaled
		if err := a.PostSend(w); err != nil {
			t.Fatal(err)
		}
		a.wait(t)
	}
	if err := b.PostRecv(RecvWR{SGL: []SGE{b.mr.SGE(0, n)}}); err != nil {
		t.Fatal(err)
	}
	post(SendWR{Op: OpSend, SGL: []SGE{a.mr.SGE(0, n)}})
	if wc := b.wait(t); wc.ByteLen != n || !bytes.Equal(here[:n], there[:n]) {
		t.Errorf("SEND of %d bytes: %+v", n, wc)
	}
	fill(here[:n], 2)
	if err := b.PostRecv(RecvWR{}); err != nil {
		t.Fatal(err)
	}
	post(SendWR{Op: OpWriteImm, Imm: 77, SGL: []SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	if wc := b.wait(t); wc.Imm != 77 || !bytes.Equal(here[:n], there[:n]) {
		t.Errorf("WRITE of %d bytes: %+v", n, wc)
	}
	if typ == UC {
		return
	}
	fill(there[:n], 3)
	post(SendWR{Op: OpRead, SGL: []SGE{a.mr.SGE(0, n)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	if !bytes.Equal(here[:n], there[:n]) {
		t.Error("READ brought other bytes")
	}
	clear(there[:8])
	post(SendWR{Op: OpFetchAdd, Add: 5, SGL: []SGE{a.mr.SGE(0, 8)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	if there[0] != 5 && there[7] != 5 {
		t.Errorf("FETCH_AND_ADD left %x", there[:8])
	}
}

// datagramEnd makes a UD queue pair in RTS.
func datagramEnd(t *testing.T, d *Device, qkey uint32) *fabricEnd {
	t.Helper()
	e := newFabricEnd(t, d, UD)
	if err := errors.Join(e.ToInit(InitAttr{QKey: qkey}), e.ToRTR(RTRAttr{}), e.ToRTS(RTSAttr{})); err != nil {
		t.Fatal(err)
	}
	return e
}

// A port with several LIDs sends from and receives on each.
func TestFabricPathBits(t *testing.T) {
	devices := fabricDevices(t, fabrictest.StartWith(t, "star:2", func(c *live.Config) { c.Manager = &sm.Config{LMC: 2} }))
	from, to := devices[0].QueryPort(), devices[1].QueryPort()
	if from.LMC != 2 || to.LMC != 2 {
		t.Fatalf("LMC %d and %d", from.LMC, to.LMC)
	}
	a, b := datagramEnd(t, devices[0], 7), datagramEnd(t, devices[1], 7)
	for bits := range uint8(4) {
		ah, err := a.pd.CreateAH(AddressVector{DLID: to.LID + uint16(3-bits), PathBits: bits})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.PostRecv(RecvWR{SGL: []SGE{b.mr.SGE(0, 64)}}); err != nil {
			t.Fatal(err)
		}
		if err := a.PostSend(SendWR{Op: OpSend, SGL: []SGE{a.mr.SGE(0, 8)}, AH: ah, RemoteQPN: b.Number(), RemoteQKey: 7}); err != nil {
			t.Fatal(err)
		}
		if wc := b.wait(t); wc.SLID != from.LID+uint16(bits) || wc.PathBits != 3-bits {
			t.Errorf("from path bits %d: %+v", bits, wc)
		}
	}
	x, y := newFabricEnd(t, devices[0], RC), newFabricEnd(t, devices[1], RC)
	ex, ey := x.Endpoint(), y.Endpoint()
	ey.LID += 2
	if err := errors.Join(x.Connect(ex, ey, ConnectConfig{PathBits: 1}), y.Connect(ey, ex, ConnectConfig{})); err != nil {
		t.Fatal(err)
	}
	everyOperation(t, x, y, RC)
}

// Datagrams travel with or without a GRH, and their completions contain the return path.
func TestFabricDatagrams(t *testing.T) {
	devices := fabricDevices(t, fabrictest.Start(t, "star:2"))
	const qkey = 0x1234
	ends := [2]*fabricEnd{datagramEnd(t, devices[0], qkey), datagramEnd(t, devices[1], qkey)}
	from, to := devices[0].QueryPort(), devices[1].QueryPort()
	fill(ends[0].mr.Bytes()[:1024], 9)
	for _, av := range []AddressVector{{DLID: to.LID}, {DLID: to.LID, DGID: devices[1].GID(), HopLimit: 3}} {
		ah, err := ends[0].pd.CreateAH(av)
		if err != nil {
			t.Fatal(err)
		}
		if err := ends[1].PostRecv(RecvWR{SGL: []SGE{ends[1].mr.SGE(0, 40+1024)}}); err != nil {
			t.Fatal(err)
		}
		if err := ends[0].PostSend(SendWR{Op: OpSend, Flags: Signaled, SGL: []SGE{ends[0].mr.SGE(0, 1024)}, AH: ah, RemoteQPN: ends[1].Number(), RemoteQKey: qkey}); err != nil {
			t.Fatal(err)
		}
		ends[0].wait(t)
		wc, b := ends[1].wait(t), ends[1].mr.Bytes()
		global := av.DGID != GID{}
		if wc.SLID != from.LID || wc.SL != 0 || wc.PathBits != 0 || wc.ByteLen != 40+1024 || (wc.Flags&WCGRH != 0) != global || wc.SrcQPN != ends[0].Number() {
			t.Errorf("to %+v: %+v", av, wc)
		}
		if !bytes.Equal(b[40:40+1024], ends[0].mr.Bytes()[:1024]) {
			t.Error("other bytes arrived")
		}
		if sgid := devices[0].GID(); global && !bytes.Equal(b[8:24], sgid[:]) {
			t.Errorf("GRH from %x", b[8:24])
		}
	}
	if _, err := ends[0].pd.CreateAH(AddressVector{DGID: devices[1].GID()}); err == nil {
		t.Error("an address without a LID was taken")
	}
}

// A fabric that ends takes its ports down, and the next one brings them up again. Queue pairs
// whose time limits have not expired continue.
func TestFabricDeviceOutlivesTheFabric(t *testing.T) {
	x := fabrictest.Start(t, "star:2")
	devices := fabricDevices(t, x)
	a, b := newFabricEnd(t, devices[0], RC), newFabricEnd(t, devices[1], RC)
	connectFabric(t, a, b, ConnectConfig{Timeout: 16})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	x.Restart()
	for _, want := range []EventType{EventPortErr, EventPortActive} {
		for {
			e, err := devices[0].NextEvent(ctx)
			if err != nil {
				t.Fatalf("no %v: %v", want, err)
			}
			if e.Type == want {
				break
			}
		}
	}
	fabrictest.WaitFor(t, "the other port", func() bool { return devices[1].QueryPort().Active })
	everyOperation(t, a, b, RC)
}

// Packets are lost while the port is not active, as if the peer were dead.
func TestFabricOpensBeforeAManager(t *testing.T) {
	x := fabrictest.StartWith(t, "star:2", func(c *live.Config) { c.Manager = nil })
	d, err := Open("ib:"+x.Adapters[0], Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if p := d.QueryPort(); p.Active || p.LID != 0 || p.State == PortActive || p.LinkLayer != "InfiniBand" {
		t.Errorf("port without a subnet manager: %+v", p)
	}
	a := newFabricEnd(t, d, RC)
	if err := a.Connect(a.Endpoint(), Endpoint{QPN: 5, LID: 7}, ConnectConfig{Timeout: 8, RetryCnt: 1}); err != nil {
		t.Fatal(err)
	}
	if err := a.PostSend(SendWR{Op: OpSend, Flags: Signaled}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := a.cq.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	var wc [1]WC
	if _, err := a.cq.Poll(wc[:]); err != nil || wc[0].Status != RetryExcErr {
		t.Errorf("%v, expected %v: %v", wc[0].Status, RetryExcErr, err)
	}
}

// A link of a fat tree is cut in the middle of a transfer. The subnet manager routes around
// it, and the queue pair retransmits lost packets.
func TestFabricTransferSurvivesACutLink(t *testing.T) {
	x := fabrictest.Start(t, "fat-tree:k=4")
	devices := fabricDevices(t, x)
	a, b := newFabricEnd(t, devices[0], RC), newFabricEnd(t, devices[len(devices)-1], RC)
	connectFabric(t, a, b, ConnectConfig{Timeout: 15})
	fill(a.mr.Bytes(), 4)
	const messages = 200
	cut := false
	for i := range messages {
		w := SendWR{Op: OpWrite, Flags: Signaled, SGL: []SGE{a.mr.SGE(0, 1<<20)}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
		if err := a.PostSend(w); err != nil {
			t.Fatal(err)
		}
		if i == messages/4 {
			cut = cutBusiestLink(t, x)
		}
		a.wait(t)
	}
	if !cut || !bytes.Equal(a.mr.Bytes(), b.mr.Bytes()) {
		t.Errorf("link cut: %v; the bytes differ", cut)
	}
}

// cutBusiestLink cuts the link between two switches that has carried the most traffic.
func cutBusiestLink(t *testing.T, x *fabrictest.Fabric) (cut bool) {
	x.Do(func(_ time.Duration, s *subnet.Subnet, _ *sm.Manager) {
		f := s.Fabric()
		var busiest topology.End
		highest := uint64(0)
		for i := range f.Nodes {
			for p := 1; p < len(f.Nodes[i].Ports) && f.Nodes[i].Kind == topology.Switch; p++ {
				peer := f.Nodes[i].Ports[p].Peer
				if n := s.Node(i).Counters(p).XmitData; n > highest && f.Nodes[peer.Node].Kind == topology.Switch {
					busiest, highest, cut = topology.End{Node: i, Port: p}, n, true
				}
			}
		}
		if cut {
			s.Cut(busiest)
			t.Logf("cut %s, which had carried %d words", f.EndName(busiest), highest)
		}
	})
	return cut
}

// Settings that do not apply to a port of a fabric are refused.
func TestFabricRefusesSettings(t *testing.T) {
	x := fabrictest.Start(t, "star:2")
	for _, cfg := range []Config{{Lanes: 2}, {MTU: 1024}, {NoCRC: true}, {SameHost: SameHostRequire}} {
		d, err := Open("ib:"+x.Adapters[0], cfg)
		if err == nil {
			d.Close()
			t.Errorf("%+v was taken", cfg)
		}
	}
	if d, err := Open("ib:"+x.Name+"/nobody", Config{}); err == nil {
		d.Close()
		t.Error("opened a node that the fabric does not have")
	}
}
