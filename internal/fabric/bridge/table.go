package bridge

import "softrdma/internal/fabric/dcb"

// Defaults of a switch's table of addresses (802.1Q table 8-6 for the time).
const (
	DefaultAgeing    = 300 * dcb.Second
	DefaultAddresses = 32768
)

// A table is the addresses that a switch has learned (802.1Q 8.7).
type table struct {
	entries map[uint64]learned // by VLAN and address
	aged    dcb.Time           // before which age is not worth its time
	changes uint64             // of what is behind ports
}

// A source is the address that a port has learned last. It saves a look-up for most frames.
type source struct {
	key     uint64
	changes uint64 // of the table, then
	seen    dcb.Time
}

type learned struct {
	port int
	seen dcb.Time
}

func key(vlan uint16, a dcb.Address) uint64 { return uint64(vlan)<<48 | uint64(a) }

// learn notes that an address is behind a port, whose last one is given.
func (t *table) learn(now dcb.Time, c *Config, vlan uint16, a dcb.Address, port int, last *source) {
	if a.Group() || a == 0 { // 802.1Q 8.7: only individual addresses are learned
		return
	}
	k := key(vlan, a)
	// An entry need not be newer than a fraction of the time after which it is forgotten.
	if last.key == k && last.changes == t.changes && now-last.seen < c.Ageing/8 {
		return
	}
	e, known := t.entries[k]
	if known && e.port == port && now-e.seen < c.Ageing/8 {
		*last = source{k, t.changes, e.seen}
		return
	}
	if !known {
		if len(t.entries) >= c.Addresses && !t.age(now, c) {
			return
		}
		if t.entries == nil {
			t.entries = make(map[uint64]learned)
		}
	}
	if !known || e.port != port {
		t.changes++
	}
	t.entries[k] = learned{port, now}
	*last = source{k, t.changes, now}
}

// age removes old entries and reports whether there were some. It looks through a table that stays full
// a few times in the time after which entries are forgotten, as a host may invent an address for each frame.
func (t *table) age(now dcb.Time, c *Config) bool {
	if now < t.aged {
		return false
	}
	t.aged = now + c.Ageing/64
	before := len(t.entries)
	for k, e := range t.entries {
		if now-e.seen >= c.Ageing {
			delete(t.entries, k)
			t.changes++
		}
	}
	return len(t.entries) < before
}

// find returns the port of an address, 0 if it is not known.
func (t *table) find(now dcb.Time, c *Config, vlan uint16, a dcb.Address) int {
	e, ok := t.entries[key(vlan, a)]
	if !ok || now-e.seen >= c.Ageing {
		return 0
	}
	return e.port
}

// forget removes the addresses behind a port.
func (t *table) forget(port int) {
	for k, e := range t.entries {
		if e.port == port {
			delete(t.entries, k)
			t.changes++
		}
	}
}
