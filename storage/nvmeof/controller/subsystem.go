package controller

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"softrdma/storage/nvmeof/auth"
	"softrdma/storage/nvmeof/wire/fabrics"
	"softrdma/storage/nvmeof/wire/logpage"
)

// A Subsystem has namespaces, which hosts reach through controllers.
type Subsystem struct {
	NQN    string
	Hosts  []string // qualified names that may connect; none: every host
	Serial string   // at most 20 bytes; empty: derived from the name
	Model  string   // at most 40 bytes; empty: "softrdma"

	// Secrets are those of hosts, by their qualified names: such hosts must authenticate by DH-HMAC-CHAP.
	// With secrets, hosts without one may not connect.
	Secrets auth.Table

	discovery  bool
	namespaces []*Namespace // in the order of identifiers
	groups     []logpage.ANAGroup
	changes    uint64 // of ANA states
	traffic    Traffic
}

// Traffic counts what hosts have read and written.
type Traffic struct{ Reads, Writes, BytesRead, BytesWritten uint64 }

// A Namespace is a range of blocks. Its fields must not change while a subsystem has it.
type Namespace struct {
	ID       uint32 // from 1
	Size     int64  // bytes, a multiple of the block size
	Block    int    // bytes of a block, a power of two from 512 to 65,536
	ReadOnly bool
	Group    uint32   // of ANA, from 1; 0 means 1
	NGUID    [16]byte // zero: derived from the subsystem's name and the identifier
	UUID     [16]byte // zero: derived likewise
	Storage  any      // the transport's; the machine does not look at it

	reservation reservation
}

const (
	defaultModel = "softrdma"
	firmware     = "1.0"
	maxNamespace = 1024
	maxGroups    = 128
)

// CheckNQN checks the name of a subsystem. Names begin with "nqn." (base 2.0, 4.5), but Linux's targets and hosts
// take others as well, and so do its tests.
func CheckNQN(nqn string) error {
	if len(nqn) == 0 || len(nqn) > fabrics.MaxNQN {
		return fmt.Errorf("qualified name: expected 1 to %d bytes, found %d", fabrics.MaxNQN, len(nqn))
	}
	return nil
}

func (sub *Subsystem) setDefaults() {
	if sub.Model == "" {
		sub.Model = defaultModel
	}
	if sub.Serial == "" {
		sum := sha256.Sum256([]byte(sub.NQN))
		sub.Serial = hex.EncodeToString(sum[:10])
	}
}

// allows reports whether a host may connect.
func (sub *Subsystem) allows(host string) bool {
	return (len(sub.Hosts) == 0 || slices.Contains(sub.Hosts, host)) && (len(sub.Secrets) == 0 || !sub.Secrets.For(host).Host.IsZero())
}

// find returns a namespace, nil if there is none.
func (sub *Subsystem) find(id uint32) *Namespace {
	for _, n := range sub.namespaces {
		if n.ID == id {
			return n
		}
	}
	return nil
}

func (sub *Subsystem) ids() (ids []uint32) {
	for _, n := range sub.namespaces {
		ids = append(ids, n.ID)
	}
	return ids
}

// check checks a namespace and sets what it leaves out.
func (n *Namespace) check(nqn string) error {
	switch {
	case n.ID == 0 || n.ID > maxNamespace:
		return fmt.Errorf("namespace: expected an identifier from 1 to %d, found %d", maxNamespace, n.ID)
	case n.Block < 512 || n.Block > 65536 || n.Block&(n.Block-1) != 0:
		return fmt.Errorf("namespace %d: expected blocks of 512 to 65536 bytes, a power of two, found %d", n.ID, n.Block)
	case n.Size < int64(n.Block) || n.Size%int64(n.Block) != 0:
		return fmt.Errorf("namespace %d: expected a size that is a multiple of %d bytes, found %d", n.ID, n.Block, n.Size)
	case n.Group > maxGroups:
		return fmt.Errorf("namespace %d: expected a group from 1 to %d, found %d", n.ID, maxGroups, n.Group)
	}
	if n.Group == 0 {
		n.Group = 1
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", nqn, n.ID))
	if n.NGUID == [16]byte{} {
		copy(n.NGUID[:], sum[:16])
	}
	if n.UUID == [16]byte{} {
		copy(n.UUID[:], sum[16:])
		n.UUID[6], n.UUID[8] = n.UUID[6]&0x0f|0x80, n.UUID[8]&0x3f|0x80 // RFC 9562, version 8
	}
	return nil
}

// blocks returns how many blocks the namespace has.
func (n *Namespace) blocks() uint64 { return uint64(n.Size) / uint64(n.Block) }

// AddNamespace adds a namespace to a subsystem of s and tells its hosts.
func (s *Subsystems) AddNamespace(sub *Subsystem, n *Namespace) error {
	s.mu.Lock()
	defer s.unlock()
	if err := n.check(sub.NQN); err != nil {
		return err
	}
	if sub.find(n.ID) != nil {
		return fmt.Errorf("namespace %d is there already", n.ID)
	}
	sub.namespaces = append(sub.namespaces, n)
	slices.SortFunc(sub.namespaces, func(a, b *Namespace) int { return int(a.ID) - int(b.ID) })
	sub.group(n.Group).Namespaces = append(sub.group(n.Group).Namespaces, n.ID)
	s.namespaceChanged(sub, n.ID)
	return nil
}

// RemoveNamespace removes a namespace, tells the subsystem's hosts, and returns it. Accesses that have
// begun complete.
func (s *Subsystems) RemoveNamespace(sub *Subsystem, id uint32) (*Namespace, error) {
	s.mu.Lock()
	defer s.unlock()
	n := sub.find(id)
	if n == nil {
		return nil, fmt.Errorf("subsystem %s has no namespace %d", sub.NQN, id)
	}
	sub.namespaces = slices.DeleteFunc(sub.namespaces, func(x *Namespace) bool { return x == n })
	g := sub.group(n.Group)
	g.Namespaces = slices.DeleteFunc(g.Namespaces, func(x uint32) bool { return x == id })
	s.namespaceChanged(sub, id)
	return n, nil
}

func (s *Subsystems) namespaceChanged(sub *Subsystem, id uint32) {
	for _, c := range s.controllers {
		if c.sub == sub {
			c.namespaceChanged(id)
		}
	}
}

// group returns a group of namespaces, which it makes if there is none.
func (sub *Subsystem) group(id uint32) *logpage.ANAGroup {
	for i := range sub.groups {
		if sub.groups[i].ID == id {
			return &sub.groups[i]
		}
	}
	sub.groups = append(sub.groups, logpage.ANAGroup{ID: id, State: logpage.ANAOptimized})
	return &sub.groups[len(sub.groups)-1]
}

// SetState sets the state of a group of a subsystem's namespaces and tells its hosts.
func (s *Subsystems) SetState(sub *Subsystem, group uint32, state logpage.ANAState) {
	s.mu.Lock()
	defer s.unlock()
	sub.changes++
	g := sub.group(group)
	g.State, g.Changes = state, sub.changes
	for _, c := range s.controllers {
		if c.sub == sub {
			c.raise(logpage.AskANAChanged, logpage.EventANAChanged)
		}
	}
}

// Traffic returns what hosts have read from a subsystem of s and written to it.
func (s *Subsystems) Traffic(sub *Subsystem) Traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sub.traffic
}
