//go:build linux

package uverbs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"softrdma/internal/fabric/fabrictest"
	"softrdma/internal/machine"
	"softrdma/internal/wire/mad"
	"softrdma/internal/wire/mad/smp"
	"softrdma/internal/wire/uapi"
)

// newFabric runs a fabric with a manager, and a server of its first adapter, whose port is
// active.
func newFabric(t *testing.T) (*fabrictest.Fabric, *Server) {
	f := fabrictest.Start(t, "star:2")
	s := newServer(t, "ib:"+f.Adapters[0])
	eventually(t, "an active port", func() bool { return s.devices[0].Fabric.Info().PortInfo.State == smp.PortActive })
	return f, s
}

// portFile reads a file of the port below /sys, "" if there is none.
func portFile(s *Server, name string) string {
	b, _ := os.ReadFile(filepath.Join(s.Tree(), "sys/class/infiniband/rxe0/ports/1", name))
	return strings.TrimSpace(string(b))
}

func TestProgramsSeeWhatTheManagerSets(t *testing.T) {
	f, s := newFabric(t)
	info := s.devices[0].Fabric.Info()
	lid := fmt.Sprintf("%#x", info.PortInfo.LID)
	follows := func(state, lid string) {
		t.Helper()
		eventually(t, state+" in the files", func() bool { return portFile(s, "state") == state && portFile(s, "lid") == lid })
	}
	follows("4: ACTIVE", lid)
	for name, want := range map[string]string{"link_layer": "InfiniBand", "pkeys/0": "0xffff", "sm_lid": fmt.Sprintf("%#x", info.PortInfo.MasterSMLID)} {
		if got := portFile(s, name); got != want {
			t.Errorf("%s: %q, expected %q", name, got, want)
		}
	}
	file := newTestClient(t, s).open("uverbs0")
	_, _, fds := do[uapi.GetContextResp](file, uapi.CmdGetContext, uapi.Bytes(&uapi.Response{}), uapi.Size[uapi.GetContextResp]())
	async := os.NewFile(uintptr(fds[0]), "async")
	defer async.Close()
	query := uapi.QueryPort{PortNum: 1}
	p, _, _ := do[uapi.QueryPortResp](file, uapi.CmdQueryPort, uapi.Bytes(&query), uapi.Size[uapi.QueryPortResp]())
	if p.LID != info.PortInfo.LID || p.SMLID != info.PortInfo.MasterSMLID || p.State != 4 || p.LinkLayer != 1 {
		t.Errorf("port: %+v", p)
	}
	_ = f.Close()
	follows("1: DOWN", lid)
	f.Restart()
	follows("4: ACTIVE", lid)
	var seen []machine.Event
	for !slices.Contains(seen, machine.EventPortActive) {
		var e uapi.AsyncEvent
		if _, err := async.Read(uapi.Bytes(&e)); err != nil || e.Element != 1 {
			t.Fatalf("event %+v of port 1: %v", e, err)
		}
		seen = append(seen, machine.Event(e.EventType))
	}
	if !slices.Contains(seen, machine.EventPortErr) {
		t.Errorf("events %v", seen)
	}
}

func TestQueuePair0OfAFabric(t *testing.T) {
	_, s := newFabric(t)
	f := madFile{newTestClient(t, s).open("umad0")}
	r := uapi.MADRegister2{QPN: 0, Class: mad.ClassDirected, Version: 1}
	if no := f.ioctl(uapi.MADRegisterAgent2, uapi.Bytes(&r)); no != 0 {
		t.Fatal(no)
	}
	h := uapi.MADHeader{TimeoutMS: 1000, Retries: 10, LID: [2]byte{0xff, 0xff}}
	p := smp.NewDirected(mad.MethodGet, smp.AttrNodeInfo, 0, 7, 0, []uint8{1})
	var b [mad.Len]byte
	p.Put(&b)
	if n, _, _ := f.write(slices.Concat(uapi.Bytes(&h), b[:])); n != 320 {
		t.Fatal(syscall.Errno(-n))
	}
	got, data := f.read()
	var node smp.NodeInfo
	p.Parse((*[mad.Len]byte)(data))
	node.Parse(&p.Data)
	if got.Status != 0 || got.LID != h.LID || node.Type != smp.Switch || node.NumPorts != 2 {
		t.Errorf("%+v from %+v", node, got)
	}
}

func TestManagerFileSetsTheCapability(t *testing.T) {
	_, s := newFabric(t)
	c := newTestClient(t, s)
	sm := c.open("issm0")
	is := func(want bool) func() bool {
		return func() bool {
			return (s.devices[0].Fabric.Info().PortInfo.CapabilityMask&smp.CapSM != 0) == want
		}
	}
	eventually(t, "a manager at the port", is(true))
	if p, _ := c.send(uapi.Request{Op: uapi.OpOpen}, []byte("issm0")); p.Result != -int64(syscall.EAGAIN) {
		t.Errorf("opened twice: %+v", p)
	}
	_ = unix.Close(sm.fd)
	sm.fd = -1
	eventually(t, "no manager at the port", is(false))
}
