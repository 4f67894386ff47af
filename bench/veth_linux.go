package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Veth returns a path between two network namespaces over a pair of virtual Ethernet
// interfaces with the given MTU. It requires root. The namespaces have no names: a
// process holds each of them and ends with this process, and the kernel then removes the
// namespace.
func Veth(mtu int) (*Path, error) {
	p := &Path{
		Device: [2]string{"veth0", "veth1"},
		Name:   fmt.Sprintf("veth, MTU %d", mtu), MTU: mtu,
		Client: netip.MustParseAddr("10.12.0.1"), Server: netip.MustParseAddr("10.12.0.2"),
	}
	ends, err := p.holdEnds()
	if err == nil {
		err = connect(ends, p, mtu)
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("create two network namespaces with a veth pair (requires root): %w", err)
	}
	return p, nil
}

// holdEnds creates a network namespace for each end, until the path is closed.
func (p *Path) holdEnds() (ends [2]*holder, err error) {
	var holders []*holder
	p.close = func() {
		for _, h := range holders {
			h.release()
		}
	}
	for end := range ends {
		h, err := hold()
		if err != nil {
			return ends, err
		}
		holders = append(holders, h)
		ends[end] = h
		in := fmt.Sprintf("/proc/%d/ns/", h.cmd.Process.Pid)
		p.Inside[end] = []string{"nsenter", "--net=" + in + "net", "--mount=" + in + "mnt", "--"}
	}
	return ends, nil
}

// A holder is a process in its own network namespace and with a /sys that shows this
// namespace: programs like UCX look up interfaces there.
type holder struct {
	cmd  *exec.Cmd
	keep io.Closer // the process ends when this is closed
}

func hold() (*holder, error) {
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
	h := &holder{cmd, keep}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		h.release()
		return nil, fmt.Errorf("mount /sys: %s", strings.TrimSpace(said.String()))
	}
	return h, nil
}

func (h *holder) release() {
	h.keep.Close()
	h.cmd.Wait()
}

// inside opens a netlink handle in the holder's namespace.
func (h *holder) inside() (*netlink.Handle, netns.NsHandle, error) {
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

// connect creates the pair in the client's namespace and moves one interface to the
// server's.
func connect(ends [2]*holder, p *Path, mtu int) error {
	var at [2]*netlink.Handle
	for i, h := range ends {
		n, ns, err := h.inside()
		if err != nil {
			return err
		}
		defer ns.Close()
		defer n.Close()
		at[i] = n
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = p.Device[client], mtu
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: p.Device[server]}
	if err := at[client].LinkAdd(pair); err != nil {
		return fmt.Errorf("veth pair: %w", err)
	}
	other, err := at[client].LinkByName(p.Device[server])
	if err != nil {
		return err
	}
	if err := at[client].LinkSetMTU(other, mtu); err != nil {
		return err
	}
	if err := at[client].LinkSetNsPid(other, ends[server].cmd.Process.Pid); err != nil {
		return err
	}
	for i, addr := range [2]netip.Addr{p.Client, p.Server} {
		if _, err := bringUp(at[i], p.Device[i], addr); err != nil {
			return err
		}
	}
	return nil
}

// bringUp assigns an address to an interface, and brings it and the namespace's
// loopback interface up.
func bringUp(n *netlink.Handle, name string, addr netip.Addr) (netlink.Link, error) {
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
