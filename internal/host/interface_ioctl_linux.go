package host

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// byIoctl lists the interfaces that have addresses. It uses ioctls on a UDP socket and
// /proc for IPv6, because sandboxes may forbid netlink (systemd's
// RestrictAddressFamilies, seccomp filters).
func byIoctl() ([]Interface, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	found := map[string]*Interface{}
	var names []string
	get := func(name string) *Interface {
		if found[name] == nil {
			found[name] = &Interface{Name: name}
			names = append(names, name)
		}
		return found[name]
	}
	entries, err := configured(fd)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		// An alias ("eth0:1") is another address of its interface.
		name, _, _ := strings.Cut(entries[i].Name(), ":")
		if b, err := entries[i].Inet4Addr(); err == nil {
			if a, ok := netip.AddrFromSlice(b); ok {
				i := get(name)
				i.Addrs = append(i.Addrs, a)
			}
		}
	}
	for name, list := range addresses6() {
		i := get(name)
		i.Addrs = append(i.Addrs, list...)
	}
	var list []Interface
	for _, name := range names {
		i := found[name]
		if err := i.describe(fd); err != nil {
			return nil, fmt.Errorf("interface %s: %w", name, err)
		}
		list = append(list, *i)
	}
	return list, nil
}

// configured returns the IPv4 addresses of all interfaces (SIOCGIFCONF).
func configured(fd int) ([]unix.Ifreq, error) {
	for n := 64; ; n *= 2 {
		list := make([]unix.Ifreq, n)
		size := int(unsafe.Sizeof(list[0]))
		conf := struct {
			len int32
			buf *unix.Ifreq
		}{int32(n * size), &list[0]}
		if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCGIFCONF, uintptr(unsafe.Pointer(&conf))); e != 0 {
			return nil, os.NewSyscallError("ioctl SIOCGIFCONF", e)
		}
		if got := int(conf.len) / size; got < n {
			return list[:got], nil
		}
	}
}

// addresses6 returns the IPv6 addresses by interface.
func addresses6() map[string][]netip.Addr {
	// /proc/net would show the network namespace of the first thread.
	f, err := os.Open("/proc/thread-self/net/if_inet6")
	if err != nil {
		return nil // the kernel has no IPv6
	}
	defer f.Close()
	list := map[string][]netip.Addr{}
	for s := bufio.NewScanner(f); s.Scan(); {
		w := strings.Fields(s.Text())
		if len(w) != 6 {
			continue
		}
		b, err := hex.DecodeString(w[0])
		if a, ok := netip.AddrFromSlice(b); err == nil && ok {
			list[w[5]] = append(list[w[5]], withZone(a, w[5]))
		}
	}
	return list
}

// describe fills in all fields except the name and the addresses.
func (i *Interface) describe(fd int) error {
	r, err := unix.NewIfreq(i.Name)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, r); err != nil {
		return err
	}
	flags := int(r.Uint16())
	i.Up = flags&unix.IFF_UP != 0 && flags&unix.IFF_RUNNING != 0
	i.Loopback = flags&unix.IFF_LOOPBACK != 0
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, r); err != nil {
		return err
	}
	i.Index = int(r.Uint32())
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFMTU, r); err != nil {
		return err
	}
	i.MTU = int(r.Uint32())
	if b, err := os.ReadFile(filepath.Join("/sys/class/net", i.Name, "address")); err == nil && !i.Loopback {
		i.MAC, _ = net.ParseMAC(strings.TrimSpace(string(b)))
	}
	i.SpeedMbps = speed(i.Name)
	return nil
}
