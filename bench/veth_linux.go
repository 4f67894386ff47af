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

// Veth is the path between two network namespaces by a pair of virtual
// Ethernet interfaces of the given MTU. It takes root. The namespaces have no
// names: each is held by a process that ends with this one, and the kernel then
// takes down all that is in it.
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
		return nil, fmt.Errorf("two network namespaces with a veth pair (takes root): %w", err)
	}
	return p, nil
}

// holdEnds gives each end of the path a network namespace until it is closed.
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

// A holder is a process in a network namespace of its own, with a /sys that
// shows it: programs like UCX look their interfaces up there.
type holder struct {
	cmd  *exec.Cmd
	keep io.Closer // it ends when this is closed
}

func hold() (*holder, error) {
	cmd := exec.Command("sh", "-c", "mount -t sysfs sysfs /sys && echo ready && exec cat")
	// Unshared and not cloned: then what is mounted stays inside.
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
		return nil, fmt.Errorf("mounting /sys: %s", strings.TrimSpace(said.String()))
	}
	return h, nil
}

func (h *holder) release() {
	h.keep.Close()
	h.cmd.Wait()
}

// inside opens a handle to the holder's namespace.
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

// connect makes the pair in the client's namespace and moves one end over.
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

// bringUp gives an interface its address and takes it and the loopback of its
// namespace into service.
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
