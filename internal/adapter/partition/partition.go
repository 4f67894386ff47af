// Package partition decides which partition keys of packets match those of a port's table
// (IBTA 10.9). It knows neither packets nor queue pairs.
package partition

const (
	base = 0x7fff // the bits that name the partition; the other one is full membership
	full = 0x8000
)

// Default is full membership of the default partition.
const Default = 0xffff

// A Table is the P_Key table of a port. Entries without a key are 0.
type Table []uint16

// RoCE is the table of every port of RoCE (annex A17.4.7).
var RoCE = Table{Default}

// Valid reports whether a key names a partition (IBTA 10.9).
func Valid(key uint16) bool { return key&base != 0 }

// Match reports whether ends with these keys may communicate: the partition is the same,
// and not both are limited members (IBTA 10.9.3).
func Match(a, b uint16) bool { return (a^b)&base == 0 && Valid(a) && (a|b)&full != 0 }

// Key returns the key at an index, 0 if there is none.
func (t Table) Key(index uint16) uint16 {
	if int(index) >= len(t) {
		return 0
	}
	return t[index]
}

// Find returns the index of the first entry that matches a packet's key.
func (t Table) Find(key uint16) (index uint16, ok bool) {
	for i, k := range t {
		if Match(k, key) {
			return uint16(i), true
		}
	}
	return 0, false
}
