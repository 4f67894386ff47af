package devices

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"softrdma/internal/samehost"
	"softrdma/verbs"
)

// A host is what processes of this machine have published of their devices.
type host struct {
	dir     string
	devices []samehost.Device
	err     error
}

// publishedDevices returns the published devices that speak a protocol of the listed ones.
func publishedDevices(listed []verbs.DeviceInfo) host {
	dir, published, err := samehost.Published("")
	published = slices.DeleteFunc(published, func(p samehost.Device) bool {
		return !slices.ContainsFunc(listed, func(d verbs.DeviceInfo) bool { return kindOf(d.Protocol) == p.Kind })
	})
	return host{dir, published, err}
}

// published reports whether a process of this network namespace has published the device of
// an address, on whatever UDP port.
func (h *host) published(d *verbs.DeviceInfo) bool {
	for _, p := range h.devices {
		if p.Same && p.Kind == kindOf(d.Protocol) && p.Local.Addr() == d.Addr.Unmap() {
			return true
		}
	}
	return false
}

// state says whether other processes reach the device through memory.
func (h *host) state(d *verbs.DeviceInfo) string {
	switch {
	case d.Protocol == verbs.IWARP:
		return "no: iWARP connections are TCP streams"
	case h.published(d):
		return "published in " + h.dir
	}
	return "not published: no process has opened it with the memory path"
}

// print lists the devices that other processes reach through memory.
func (h *host) print(w io.Writer) {
	if h.err != nil {
		fmt.Fprintf(w, "\nNo device is published to processes of this machine: %v\n", h.err)
		return
	}
	if len(h.devices) == 0 {
		return
	}
	fmt.Fprintf(w, "\nPublished in %s, to be reached through memory\n(a killed process leaves its devices there):\n", h.dir)
	for _, p := range h.devices {
		note := ""
		if !p.Same {
			note = ", in another network namespace"
		}
		name := p.Kind
		for _, known := range []verbs.Protocol{verbs.RoCE, verbs.RoCEv1} {
			if kindOf(known) == p.Kind {
				name = known.String()
			}
		}
		fmt.Fprintf(w, "    %s %s%s\n", name, addressOf(p.Local, p.Kind), note)
	}
}

// kindOf returns a protocol as the directory names it.
func kindOf(p verbs.Protocol) string {
	return strings.ReplaceAll(strings.ToLower(p.String()), " ", "")
}

// addressOf leaves out the port that every device of a kind has.
func addressOf(a netip.AddrPort, kind string) string {
	if a.Port() == verbs.Port || kind == kindOf(verbs.RoCEv1) {
		return a.Addr().String()
	}
	return a.String()
}
