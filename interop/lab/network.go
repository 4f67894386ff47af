//go:build interop && linux

package lab

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Addresses in the lab's network. The first is the host's end, where softrdma runs.
const (
	HostIPv4 = "10.77.0.1"
	HostIPv6 = "fd77::1"
	// HostIPv4Second is for a second softrdma at the same time, because an address is one device. No route chooses it.
	HostIPv4Second = "10.77.0.9"
	// The same in the network of iWARP, where the guests have siw.
	HostIWARPv4       = "10.78.0.1"
	HostIWARPv6       = "fd78::1"
	HostIWARPv4Second = "10.78.0.9"
	// NobodyIPv4 is an address of the network that no host has.
	NobodyIPv4 = "10.77.0.99"
	// MTU leaves room for a path MTU of 4096 and its headers.
	MTU = 9000

	bridge      = "lab0"
	iwarpBridge = "lab1"
)

// network is a network namespace with two bridges, one for RoCE and one for iWARP. The namespace has no name. A process
// holds it that ends with the lab, however that ends, and then the kernel removes everything in it.
type network struct {
	holder *exec.Cmd
	keep   io.Closer // the holder ends when this is closed
}

func newNetwork(ctx context.Context) (*network, error) {
	holder := exec.Command("cat")
	keep, err := holder.StdinPipe()
	if err != nil {
		return nil, err
	}
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := holder.Start(); err != nil {
		return nil, &LackError{"a network namespace", err.Error()}
	}
	n := &network{holder: holder, keep: keep}
	err = n.ip(ctx, "link", "set", "lo", "up")
	if err == nil {
		err = n.addBridge(ctx, bridge, HostIPv4, HostIPv4Second, HostIPv6)
	}
	if err == nil {
		err = n.addBridge(ctx, iwarpBridge, HostIWARPv4, HostIWARPv4Second, HostIWARPv6)
	}
	if err != nil {
		n.close()
		return nil, &LackError{"a bridge in a network namespace", err.Error()}
	}
	return n, nil
}

func (n *network) addBridge(ctx context.Context, name, v4, second, v6 string) error {
	for _, args := range [][]string{
		// Without snooping, multicast reaches every port at once.
		{"link", "add", name, "mtu", strconv.Itoa(MTU), "type", "bridge", "mcast_snooping", "0"},
		{"addr", "add", v4 + "/24", "dev", name},
		{"addr", "add", second + "/24", "dev", name},
		{"-6", "addr", "add", v6 + "/64", "dev", name, "nodad"},
		{"link", "set", name, "up"},
	} {
		if err := n.ip(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// addTap makes a port of a bridge for a guest.
func (n *network) addTap(ctx context.Context, name, bridge string) error {
	if err := n.ip(ctx, "tuntap", "add", name, "mode", "tap"); err != nil {
		return &LackError{"a tap device", err.Error()}
	}
	// UC and UD do not retransmit what a full queue drops, so it holds the largest message of the tests at the smallest MTU.
	return n.ip(ctx, "link", "set", name, "mtu", strconv.Itoa(MTU), "txqueuelen", "8192", "master", bridge, "up")
}

// setMaster connects a guest's port with a bridge, or with none.
func (n *network) setMaster(ctx context.Context, name string, master ...string) error {
	return n.ip(ctx, append([]string{"link", "set", name}, master...)...)
}

// setTap takes a guest's port of a bridge down or up. The guest keeps its carrier and sees only silence.
func (n *network) setTap(ctx context.Context, name, state string) error {
	return n.ip(ctx, "link", "set", name, state)
}

func (n *network) ip(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	_, err := RunCommand(ctx, "", n.inside(append([]string{"ip"}, args...))...)
	return err
}

// inside returns the command line that runs argv in the namespace.
func (n *network) inside(argv []string) []string {
	return append([]string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", n.holder.Process.Pid), "--"}, argv...)
}

func (n *network) close() {
	n.keep.Close()
	n.holder.Wait()
}
