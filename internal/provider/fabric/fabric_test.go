package fabric

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"softrdma/internal/adapter"
	"softrdma/internal/fabric/attach"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
)

func TestConfigOfAPort(t *testing.T) {
	i := &attach.Info{
		NodeInfo: smp.NodeInfo{PortGUID: 0x11, PartitionCap: 4},
		PortInfo: smp.PortInfo{MTUCap: mad.MTUFrom(4096)},
	}
	c := Config(i)
	if c.LID != 0 || c.MTU != 4096 || !slices.Equal(c.PKeys, []uint16{0, 0, 0, 0}) ||
		!slices.Equal(c.GIDs, []netip.Addr{netip.MustParseAddr("fe80::11")}) {
		t.Errorf("a port that no manager has seen: %+v", c)
	}
	i.PortInfo = smp.PortInfo{LID: 8, LMC: 2, NeighborMTU: mad.MTUFrom(1024), MTUCap: mad.MTUFrom(4096), GIDPrefix: 0xfec0 << 48}
	i.PKeys, i.GUIDs = []uint16{0xffff, 0x8001}, []uint64{0x11, 0, 0x33}
	c = Config(i)
	if c.LID != 8 || c.LMC != 2 || c.MTU != 1024 || !slices.Equal(c.PKeys, []uint16{0xffff, 0x8001, 0, 0}) ||
		!slices.Equal(c.GIDs, []netip.Addr{netip.MustParseAddr("fec0::11"), {}, netip.MustParseAddr("fec0::33")}) {
		t.Errorf("a port as a manager set it: %+v", c)
	}
}

// An earlier state of a port does not replace a later one, in whatever order goroutines read them.
func TestFollowerKeepsTheLatestOfThePort(t *testing.T) {
	info := func(lid uint16) *attach.Info { return &attach.Info{PortInfo: smp.PortInfo{LID: lid}} }
	reading, goOn := make(chan struct{}), make(chan struct{})
	var port atomic.Pointer[attach.Info]
	port.Store(info(0))
	slow := true
	var lid uint16
	f := follower{configure: func(c *adapter.PortConfig) { lid = c.LID }}
	f.info = func() *attach.Info {
		i := port.Load()
		if slow {
			slow = false
			close(reading)
			<-goOn
		}
		return i
	}
	var done sync.WaitGroup
	done.Go(func() { f.follow() })
	<-reading
	port.Store(info(7))
	second := make(chan struct{})
	done.Go(func() { defer close(second); f.follow() })
	select {
	case <-second:
	case <-time.After(20 * time.Millisecond): // it waits for the first
	}
	close(goOn)
	done.Wait()
	if lid != 7 {
		t.Errorf("the adapter has the LID %d, expected 7", lid)
	}
}

// What a program sees of a port is what the adapter has: it may send when it has seen a LID.
func TestFollowerShowsWhatTheAdapterHas(t *testing.T) {
	port := &attach.Info{}
	var lid uint16
	configured := 0
	f := follower{info: func() *attach.Info { return port }, configure: func(c *adapter.PortConfig) { lid, configured = c.LID, configured+1 }}
	f.follow()
	port = &attach.Info{PortInfo: smp.PortInfo{LID: 7}} // before the adapter is told
	if seen := f.follow().PortInfo.LID; seen != 7 || lid != 7 {
		t.Errorf("a program sees LID %d, the adapter has %d, expected 7", seen, lid)
	}
	if f.follow(); configured != 2 {
		t.Errorf("the adapter was configured %d times, expected 2", configured)
	}
}
