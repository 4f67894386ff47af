package launch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// maxAddresses is the number of its host's addresses that a rank publishes. They fit into the
// 1024 bytes of a value of PMI-1.
const maxAddresses = 8

// Locate finds the address by which this host reaches the others: ranks publish the addresses
// of their hosts. All ranks call it before Exchange, even those whose device is known.
func (j *Job) Locate(ctx context.Context) error {
	if j.board == nil || j.LocalSize == j.Size {
		return nil
	}
	own, err := networks()
	if err != nil {
		return err
	}
	value, err := json.Marshal(own)
	if err != nil {
		return err
	}
	values, err := j.board.share(ctx, "host", value)
	if err != nil || j.Device != "" {
		return err
	}
	hosts := make([][]netip.Prefix, len(values))
	for r, v := range values {
		if err := json.Unmarshal(v, &hosts[r]); err != nil || len(v) > MaxValue {
			return fmt.Errorf("%w: addresses of rank %d: %q", ErrExchange, r, v)
		}
	}
	remote, ok := nearest(own, hosts)
	if !ok {
		return fmt.Errorf("launch: no address of other hosts: set %s for each rank (%v here)", EnvDevice, own)
	}
	j.Remote = net.JoinHostPort(remote.String(), strconv.Itoa(discard))
	return nil
}

// discard is the port of the discard protocol. No packet is sent to it.
const discard = 9

// networks returns the addresses of this host that others may reach, IPv4 addresses first.
func networks() ([]netip.Prefix, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var list []netip.Prefix
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		addresses, err := i.Addrs()
		if err != nil {
			return nil, err
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
				list = append(list, p)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b netip.Prefix) int { return cmp.Compare(a.Addr().BitLen(), b.Addr().BitLen()) })
	return list[:min(len(list), maxAddresses)], nil
}

// nearest returns an address of another host, preferably in a network of this host. An address
// that this host has as well, such as that of a container bridge, is ignored.
func nearest(own []netip.Prefix, hosts [][]netip.Prefix) (netip.Addr, bool) {
	is := func(test func(own netip.Prefix) bool) bool { return slices.ContainsFunc(own, test) }
	var far []netip.Addr
	for _, host := range hosts {
		for _, p := range host {
			a := p.Addr()
			if is(func(o netip.Prefix) bool { return o.Addr() == a }) {
				continue
			}
			if is(func(o netip.Prefix) bool { return o.Contains(a) }) {
				return a, true
			}
			far = append(far, a)
		}
	}
	if len(far) == 0 {
		return netip.Addr{}, false
	}
	return far[0], true
}
