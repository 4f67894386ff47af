// Package twohosts makes two network namespaces that stand for two hosts. Tests and the
// benchmarks use it. It requires root.
package twohosts

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Hosts are two hosts. They have no names: a process holds each namespace and ends with this
// process, and the kernel then removes the namespace.
type Hosts struct {
	Device         [2]string // network interfaces
	Client, Server netip.Addr
	Inside         [2][]string // beginnings of command lines that run a program on either host
	Ends           [2]*Host
}

// Cable returns two hosts with a pair of virtual Ethernet interfaces of the given MTU between them.
func Cable(mtu int) (*Hosts, error) {
	h, err := New()
	if err == nil {
		h.Device = [2]string{"veth0", "veth1"}
		h.Client, h.Server = netip.MustParseAddr("10.12.0.1"), netip.MustParseAddr("10.12.0.2")
		err = h.connect(mtu)
	}
	if err != nil {
		h.Close()
		return nil, fmt.Errorf("create two network namespaces with a veth pair (requires root): %w", err)
	}
	return h, nil
}

// New returns two hosts without a connection. After an error, Close removes what was made.
func New() (*Hosts, error) {
	h := &Hosts{}
	for i := range h.Ends {
		end, err := hold()
		if err != nil {
			return h, err
		}
		h.Ends[i] = end
		in := fmt.Sprintf("/proc/%d/ns/", end.cmd.Process.Pid)
		h.Inside[i] = []string{"nsenter", "--net=" + in + "net", "--mount=" + in + "mnt", "--"}
	}
	return h, nil
}

// Close removes the hosts.
func (h *Hosts) Close() {
	for _, end := range h.Ends {
		if end != nil {
			end.release()
		}
	}
}

// A Host is a process in its own network namespace and with a /sys that shows this
// namespace: programs like UCX look up interfaces there.
type Host struct {
	cmd  *exec.Cmd
	keep io.Closer // the process ends when this is closed
}

func hold() (*Host, error) {
	cmd := exec.Command("sh", "-c", "mount -t sysfs sysfs /sys && echo ready && exec cat")
	// Unshare makes the mounts private to the process; clone would not.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Setpgid: true}
	keep, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	h := &Host{cmd, keep}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		h.release()
		return nil, fmt.Errorf("mount /sys: %s", strings.TrimSpace(said.String()))
	}
	return h, nil
}

func (h *Host) release() {
	h.keep.Close()
	h.cmd.Wait()
}

// Netlink opens a handle in the host's namespace.
func (h *Host) Netlink() (*netlink.Handle, netns.NsHandle, error) {
	ns, err := netns.GetFromPid(h.cmd.Process.Pid)
	if err != nil {
		return nil, ns, err
	}
	n, err := netlink.NewHandleAt(ns)
	if err != nil {
		return nil, ns, errors.Join(err, ns.Close())
	}
	return n, ns, nil
}

// Enter calls f on a thread in the host's namespace. The thread ends afterwards.
func (h *Host) Enter(f func() error) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // until the goroutine ends, and the thread with it
		var ns netns.NsHandle
		if ns, err = netns.GetFromPid(h.cmd.Process.Pid); err != nil {
			return
		}
		defer ns.Close()
		if err = netns.Set(ns); err == nil {
			err = f()
		}
	}()
	<-done
	return err
}

// connect creates the pair in the client's namespace and moves one interface to the
// server's.
func (h *Hosts) connect(mtu int) error {
	var at [2]*netlink.Handle
	for i, end := range h.Ends {
		n, ns, err := end.Netlink()
		if err != nil {
			return err
		}
		defer ns.Close()
		defer n.Close()
		at[i] = n
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = h.Device[0], mtu
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: h.Device[1]}
	if err := at[0].LinkAdd(pair); err != nil {
		return fmt.Errorf("veth pair: %w", err)
	}
	other, err := at[0].LinkByName(h.Device[1])
	if err != nil {
		return err
	}
	if err := at[0].LinkSetMTU(other, mtu); err != nil {
		return err
	}
	if err := at[0].LinkSetNsPid(other, h.Ends[1].cmd.Process.Pid); err != nil {
		return err
	}
	for i, addr := range [2]netip.Addr{h.Client, h.Server} {
		if _, err := BringUp(at[i], h.Device[i], addr); err != nil {
			return err
		}
	}
	return nil
}

// BringUp assigns an address to an interface, and brings it and the namespace's
// loopback interface up.
func BringUp(n *netlink.Handle, name string, addr netip.Addr) (netlink.Link, error) {
	lo, err := n.LinkByName("lo")
	if err != nil {
		return nil, err
	}
	l, err := n.LinkByName(name)
	if err != nil {
		return nil, err
	}
	a, err := netlink.ParseAddr(netip.PrefixFrom(addr, 24).String())
	if err != nil {
		return nil, err
	}
	if err := errors.Join(n.LinkSetUp(lo), n.AddrAdd(l, a), n.LinkSetUp(l)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}
