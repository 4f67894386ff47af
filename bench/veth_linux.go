package bench

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os/exec"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Veth is the path between two network namespaces by a pair of virtual
// Ethernet interfaces of the given MTU. It takes root. The namespaces have no
// names: each is held by a process that ends with this one, and the kernel then
// takes down all that is in it.
func Veth(mtu int) (p *Path, err error) {
	p = &Path{
		Device: [2]string{"veth0", "veth1"},
		Name:   fmt.Sprintf("veth, MTU %d", mtu), MTU: mtu,
		Client: netip.MustParseAddr("10.12.0.1"), Server: netip.MustParseAddr("10.12.0.2"),
	}
	var holders []*holder
	p.close = func() {
		for _, h := range holders {
			h.release()
		}
	}
	defer func() {
		if err != nil {
			p.Close()
			p, err = nil, fmt.Errorf("two network namespaces with a veth pair (takes root): %w", err)
		}
	}()
	for end := range 2 {
		h, err := hold()
		if err != nil {
			return p, err
		}
		holders = append(holders, h)
		p.Inside[end] = []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", h.cmd.Process.Pid), "--"}
	}
	ends := [2]*holder{holders[client], holders[server]}
	return p, connect(ends, p.Device, [2]netip.Addr{p.Client, p.Server}, mtu)
}

// A holder is a process in a network namespace of its own.
type holder struct {
	cmd  *exec.Cmd
	keep io.Closer // it ends when this is closed
}

func hold() (*holder, error) {
	cmd := exec.Command("cat")
	keep, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &holder{cmd, keep}, nil
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
func connect(ends [2]*holder, devices [2]string, addrs [2]netip.Addr, mtu int) error {
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
	attrs.Name, attrs.MTU = devices[client], mtu
	pair := &netlink.Veth{LinkAttrs: attrs, PeerName: devices[server]}
	if err := at[client].LinkAdd(pair); err != nil {
		return fmt.Errorf("veth pair: %w", err)
	}
	other, err := at[client].LinkByName(devices[server])
	if err != nil {
		return err
	}
	if err := at[client].LinkSetMTU(other, mtu); err != nil {
		return err
	}
	if err := at[client].LinkSetNsPid(other, ends[server].cmd.Process.Pid); err != nil {
		return err
	}
	for i, name := range devices {
		l, err := at[i].LinkByName(name)
		if err != nil {
			return err
		}
		a, err := netlink.ParseAddr(netip.PrefixFrom(addrs[i], 24).String())
		if err != nil {
			return err
		}
		if err := errors.Join(at[i].AddrAdd(l, a), at[i].LinkSetUp(l)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		lo, err := at[i].LinkByName("lo")
		if err != nil {
			return err
		}
		if err := at[i].LinkSetUp(lo); err != nil {
			return err
		}
	}
	return nil
}
