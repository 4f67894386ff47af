// Package fabrictest runs fabrics for tests of the programs that attach to them.
package fabrictest

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"softrdma/internal/fabric/attach"
	"softrdma/internal/fabric/bridge"
	"softrdma/internal/fabric/control"
	"softrdma/internal/fabric/dcb"
	"softrdma/internal/fabric/hostport"
	"softrdma/internal/fabric/lan"
	"softrdma/internal/fabric/live"
	"softrdma/internal/management/sm"
	"softrdma/internal/reason"
	"softrdma/internal/testenv"
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad/smp"
)

// A Fabric is a fabric of a test.
type Fabric struct {
	*live.Fabric
	Name     string
	Adapters []string // addresses "NAME/NODE" of the adapters, in the order of the topology

	t      testing.TB
	config live.Config
}

// Start runs a fabric of a shape such as "star:3" with a subnet manager, in a directory of the
// test, which SOFTRDMA_FABRIC_DIR names: tests that use it are not parallel. Adapter i has the
// IP address 10.77.0.1+i. The fabric ends with the test.
func Start(t testing.TB, shape string) *Fabric {
	t.Helper()
	return StartWith(t, shape, func(*live.Config) {})
}

// StartWith is Start with a change of the configuration.
func StartWith(t testing.TB, shape string, change func(*live.Config)) *Fabric {
	t.Helper()
	f, err := topology.Generate(shape)
	if err != nil {
		t.Fatal(err)
	}
	x := &Fabric{Name: "test", t: t}
	x.config = live.Config{Name: x.Name, Directory: t.TempDir(), Fabric: f, Manager: &sm.Config{}, Addrs: make(map[topology.End][]netip.Addr)}
	t.Setenv("SOFTRDMA_FABRIC_DIR", x.config.Directory)
	addr := netip.AddrFrom4([4]byte{10, 77, 0, 1})
	for i := range f.Nodes {
		if f.Nodes[i].Kind == topology.Adapter {
			x.Adapters = append(x.Adapters, x.Name+"/"+f.Nodes[i].ID)
			x.config.Addrs[topology.End{Node: i, Port: 1}] = []netip.Addr{addr}
			addr = addr.Next()
		}
	}
	x.config.Dropped = func(at topology.End, d reason.Detail) {
		if testing.Verbose() {
			fmt.Printf("fabric: %s: dropped: %v\n", f.EndName(at), d)
		}
	}
	change(&x.config)
	x.Restart()
	t.Cleanup(func() { _ = x.Close() })
	return x
}

// StartEthernet runs an Ethernet of a shape, with links of 100 Gbit/s whose priority 3 is lossless, in
// a directory of the test. Adapters has the addresses of its hosts.
func StartEthernet(t testing.TB, shape string, change func(*live.Config)) *Fabric {
	t.Helper()
	return StartWith(t, shape, ethernet(change))
}

// NewEthernet returns an Ethernet with links of 100 Gbit/s whose priority 3 is lossless.
func NewEthernet() *live.Ethernet {
	return &live.Ethernet{
		Link:   lan.Link{Port: dcb.PortConfig{Speed: 100 * dcb.Gbit, MTU: 9018, Pause: dcb.ByClass, Lossless: 1 << 3}},
		Switch: bridge.Config{Buffer: bridge.BufferConfig{Size: 4 << 20}},
		Control: func(now time.Duration, n *lan.Network, attached control.Attached, question []byte) ([]byte, error) {
			return control.AnswerEthernet(now, n, attached, question)
		},
	}
}

// ethernet makes a configuration one of an Ethernet, and changes it then.
func ethernet(change func(*live.Config)) func(*live.Config) {
	return func(c *live.Config) {
		c.Manager, c.Addrs = nil, nil
		c.Ethernet = NewEthernet()
		change(c)
	}
}

// StartRemoteEthernet is StartEthernet for programs on another host, as StartRemote is StartWith.
func StartRemoteEthernet(t testing.TB, shape string, change func(*live.Config)) *Fabric {
	t.Helper()
	return StartRemote(t, shape, ethernet(change))
}

// Ethernet reports whether the fabric is an Ethernet.
func (x *Fabric) Ethernet() bool { return x.config.Ethernet != nil }

// AttachHost attaches to the port of host i of an Ethernet, until the end of the test.
func (x *Fabric) AttachHost(i int) *attach.Port {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	p, err := attach.OpenService(ctx, x.Adapters[i], hostport.Datagrams, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { _ = p.Close() })
	return p
}

// StartRemote is StartWith for programs on another host: the fabric listens at a loopback address
// without a secret, unless change sets it otherwise. Adapters has the names for other hosts, and
// SOFTRDMA_FABRIC_DIR names no directory, so that nothing else finds the fabric.
func StartRemote(t testing.TB, shape string, change func(*live.Config)) *Fabric {
	t.Helper()
	var at netip.AddrPort
	x := StartWith(t, shape, func(c *live.Config) {
		c.Remote.Listen = netip.MustParseAddrPort(FreeUDP(t, 1)[0])
		change(c)
		at = c.Remote.Listen
	})
	t.Setenv("SOFTRDMA_FABRIC_DIR", filepath.Join(t.TempDir(), "none"))
	for i, a := range x.Adapters {
		x.Adapters[i] = fmt.Sprintf("%s@%v%s", x.Name, at, strings.TrimPrefix(a, x.Name))
	}
	x.Name = fmt.Sprintf("%s@%v", x.Name, at)
	return x
}

// Restart ends the fabric, if it runs, and starts another one of the same name.
func (x *Fabric) Restart() {
	x.t.Helper()
	if x.Fabric != nil {
		_ = x.Close()
	}
	var err error
	if x.Fabric, err = live.Start(x.config); err != nil {
		x.t.Fatal(err)
	}
}

// Attach attaches to port 1 of adapter i, until the end of the test, and waits until the
// manager has brought the port up.
func (x *Fabric) Attach(i int) *attach.Port {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	p, err := attach.Open(ctx, x.Adapters[i])
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(func() { _ = p.Close() })
	WaitFor(x.t, "an active port", func() bool { return p.Info().PortInfo.State == smp.PortActive && p.Info().PortInfo.LID != 0 })
	return p
}

// WaitFor waits until a condition is true.
func WaitFor(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// FreeUDP returns loopback addresses with UDP ports to which no program is bound.
func FreeUDP(t testing.TB, n int) (list []string) {
	t.Helper()
	for range n {
		list = append(list, fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t, "udp")))
	}
	return list
}
