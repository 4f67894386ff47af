package attach

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"softrdma/internal/fabric/hostport"
	"softrdma/internal/reason"
)

const (
	// findTime limits the wait for a fabric's answer.
	findTime = time.Second

	// absentTime is how long an answer is valid that there is no host: a trunk may lead to one later.
	absentTime = time.Second

	// maxHosts is the number of addresses of which a port knows the answer.
	maxHosts = 1024
)

// A hostAnswer is what the fabric has said about an IP address.
type hostAnswer struct {
	mac   [6]byte
	found bool
	until time.Time // when an answer that there is no host ends
}

// reaches reports whether the fabric has a host with an IP address.
func (p *Port) reaches(ip netip.Addr) bool {
	if a, known := p.knownHost(ip); known {
		return a.found
	}
	_, found, _ := p.FindHost(ip)
	return found
}

// Host returns the MAC address of the host of an Ethernet with an IP address, if the port knows it.
func (p *Port) Host(ip netip.Addr) (mac [6]byte, known bool) {
	a, _ := p.knownHost(ip)
	return a.mac, a.found
}

func (p *Port) knownHost(ip netip.Addr) (a hostAnswer, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, known = p.hosts[ip.Unmap()]
	return a, known && (a.found || time.Now().Before(a.until))
}

// FindHost asks the fabric for the host of an Ethernet with an IP address, and reports whether there is
// one. The port remembers a host as long as it is attached, because a fabric keeps its hosts, and for a
// second that there is none.
func (p *Port) FindHost(ip netip.Addr) (mac [6]byte, found bool, err error) {
	ip = ip.Unmap()
	c := p.connection()
	if c == nil && p.address.remote() { // no answer for two seconds: to ask again takes as long
		return mac, false, reason.Detail{Reason: reason.FabricGone, Expected: 1}.Err()
	}
	ctx, cancel := context.WithTimeout(context.Background(), findTime)
	defer cancel()
	f, err := p.find(ctx, ip)
	var why *reason.Error
	if errors.As(err, &why) && why.Detail.Reason == reason.AddressUnreachable {
		err = nil
	} else if err != nil {
		return mac, false, err
	} else {
		found = p.service != hostport.RoCEFrames || f.MAC != [6]byte{} // frames of RoCE v1 are not routed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c != nil && p.conn == c {
		if p.hosts == nil || len(p.hosts) >= maxHosts {
			p.hosts = make(map[netip.Addr]hostAnswer)
		}
		p.hosts[ip] = hostAnswer{f.MAC, found, time.Now().Add(absentTime)}
	}
	return f.MAC, found, nil
}

// SetGroup says that the program of a port of an Ethernet wants what is sent to a group, or no longer.
// Each call with true needs one with false. The port joins again after the fabric has gone and come back.
func (p *Port) SetGroup(group [16]byte, on bool) {
	change := -1
	if on {
		change = 1
	}
	p.joining.Lock()
	defer p.joining.Unlock()
	p.mu.Lock()
	if p.groups == nil {
		p.groups = make(map[[16]byte]int)
	}
	before := p.groups[group]
	p.groups[group] += change
	after := p.groups[group]
	if after <= 0 {
		delete(p.groups, group)
	}
	p.mu.Unlock()
	if (before > 0) != (after > 0) {
		p.SetMember(Membership{MGID: group, State: hostport.FullMember}, after > 0)
	}
}

// joinAgain tells a fabric of the groups that were joined before it came.
func (p *Port) joinAgain(c *Conn) {
	p.joining.Lock()
	defer p.joining.Unlock()
	p.mu.Lock()
	groups := slices.Collect(maps.Keys(p.groups))
	p.mu.Unlock()
	for _, g := range groups {
		m := Membership{MGID: g, State: hostport.FullMember}
		_ = c.Send(m.message(true)) // fails if the fabric has gone again
	}
}
