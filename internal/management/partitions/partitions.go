// Package partitions reads the partitions of a subnet from a file. It only reads: a manager
// (package sm) applies them.
package partitions

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"softrdma/internal/management/sm"
	"softrdma/internal/topology"
	"softrdma/internal/wire/mad/smp"
)

// Parse reads partitions in the format of opensm's partitions.conf:
//
//	NAME=PKEY [, ipoib] [, defmember=full|limited] : MEMBER[=full|limited], ... ;
//
// A MEMBER is the GUID of a port, a node of the fabric by its name (its first port), ALL,
// ALL_CAS, ALL_SWITCHES, or SELF, the port of the manager, which has this GUID. Members are
// limited ones unless they or defmember say otherwise. Definitions of one P_Key add up. A
// comment begins with #.
//
// Any other text is refused with the number of its line. The flags of opensm about
// service levels, rates and multicast groups are refused as well.
func Parse(file, text string, f *topology.Fabric, self uint64) ([]sm.Partition, error) {
	p := parser{fabric: f, self: self, keys: make(map[string]uint16)}
	line, begin := 1, 1
	var b strings.Builder
	for l := range strings.Lines(text) {
		l, _, _ = strings.Cut(strings.TrimSuffix(l, "\n"), "#")
		for {
			part, rest, end := strings.Cut(l, ";")
			if strings.TrimSpace(b.String()) == "" {
				begin = line
			}
			b.WriteString(part + " ")
			if !end {
				break
			}
			if err := p.define(b.String()); err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, begin, err)
			}
			b.Reset()
			l = rest
		}
		line++
	}
	if s := strings.TrimSpace(b.String()); s != "" {
		return nil, fmt.Errorf("%s:%d: %q: expected a semicolon at the end, found none", file, begin, brief(s))
	}
	if p.all == nil {
		return nil, fmt.Errorf("%s: expected a partition, found none", file)
	}
	return p.all, nil
}

type parser struct {
	fabric *topology.Fabric
	self   uint64
	all    []sm.Partition
	keys   map[string]uint16 // by name
}

// define adds what one definition says.
func (p *parser) define(text string) error {
	head, members, ok := strings.Cut(text, ":")
	if !ok {
		return fmt.Errorf("%q: expected NAME=PKEY : MEMBER", brief(text))
	}
	flags := fields(head)
	name, key, ok := splitAssignment(flags[0])
	if !ok || name == "" {
		return fmt.Errorf("%q: expected NAME=PKEY", flags[0])
	}
	n, err := strconv.ParseUint(key, 0, 16)
	if err != nil || n&^uint64(smp.FullMember) == 0 {
		return fmt.Errorf("%s: expected a P_Key of 0x1 to 0x7fff, found %q", name, key)
	}
	pkey := uint16(n) &^ smp.FullMember
	if old, ok := p.keys[name]; ok && old != pkey {
		return fmt.Errorf("%s: expected the P_Key %#x of the definition before, found %#x", name, old, pkey)
	}
	p.keys[name] = pkey
	to := p.partition(pkey)
	otherwise := sm.LimitedMember
	for _, flag := range flags[1:] {
		word, value, has := splitAssignment(flag)
		switch {
		case word == "ipoib" && !has:
			to.IPoIB = true
		case word == "defmember" && has:
			if otherwise, err = membership(value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		default:
			return fmt.Errorf("%s: expected ipoib, defmember=full or defmember=limited, found %q", name, flag)
		}
	}
	for _, member := range fields(members) {
		word, value, has := splitAssignment(member)
		is := otherwise
		if has {
			if is, err = membership(value); err != nil {
				return fmt.Errorf("%s: %s: %w", name, word, err)
			}
		}
		if err := p.join(to, word, is); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// partition returns the partition of a key, which it adds if there is none.
func (p *parser) partition(key uint16) *sm.Partition {
	i := slices.IndexFunc(p.all, func(x sm.Partition) bool { return x.Key == key })
	if i < 0 {
		i = len(p.all)
		p.all = append(p.all, sm.Partition{Key: key, Members: make(map[uint64]sm.Membership)})
	}
	return &p.all[i]
}

// join makes what a word names members of a partition.
func (p *parser) join(to *sm.Partition, word string, is sm.Membership) error {
	switch word {
	case "":
		return fmt.Errorf("expected a member, found none")
	case "ALL":
		to.All = is
	case "ALL_CAS":
		p.joinKind(to, topology.Adapter, is)
	case "ALL_SWITCHES", "ALL_SWS":
		p.joinKind(to, topology.Switch, is)
	case "SELF":
		to.Members[p.self] = is
	default:
		if guid, err := strconv.ParseUint(word, 0, 64); err == nil {
			to.Members[guid] = is
			return nil
		}
		node, err := p.fabric.Find(word)
		if err != nil {
			return fmt.Errorf("%q: expected ALL, ALL_CAS, ALL_SWITCHES, SELF, the GUID of a port or a node: %w", word, err)
		}
		first, _ := p.fabric.Nodes[node].EndPorts()
		to.Members[p.fabric.Nodes[node].Ports[first].GUID] = is
	}
	return nil
}

func (p *parser) joinKind(to *sm.Partition, kind topology.Kind, is sm.Membership) {
	for i := range p.fabric.Nodes {
		if n := &p.fabric.Nodes[i]; n.Kind == kind {
			first, last := n.EndPorts()
			for port := first; port <= last; port++ {
				to.Members[n.Ports[port].GUID] = is
			}
		}
	}
}

func membership(word string) (sm.Membership, error) {
	switch word {
	case "full":
		return sm.FullMember, nil
	case "limited":
		return sm.LimitedMember, nil
	}
	return sm.NoMember, fmt.Errorf("expected full or limited, found %q", word)
}

// brief is the beginning of a text, for an error.
func brief(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// fields are the parts between commas.
func fields(s string) []string {
	all := strings.Split(s, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// splitAssignment splits NAME=VALUE.
func splitAssignment(s string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(s, "=")
	return strings.TrimSpace(name), strings.TrimSpace(value), ok
}
