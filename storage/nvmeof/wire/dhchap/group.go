package dhchap

import (
	"fmt"
	"math/big"
	"sync"
)

// A Group is a Diffie-Hellman group of RFC 7919, or none.
type Group uint8

// The groups.
const (
	NoGroup Group = iota
	FFDHE2048
	FFDHE3072
	FFDHE4096
	FFDHE6144
	FFDHE8192
)

// groups have the numbers that make the primes of RFC 7919, appendix A.
var groups = [...]struct{ bits, x int64 }{
	FFDHE2048: {2048, 560316}, FFDHE3072: {3072, 2625351}, FFDHE4096: {4096, 5736041}, FFDHE6144: {6144, 15705020}, FFDHE8192: {8192, 10965728},
}

// Known reports whether the group is one of the above.
func (g Group) Known() bool { return int(g) < len(groups) }

// Len returns how long public values of the group are, in bytes: 0 of NoGroup.
func (g Group) Len() int {
	if !g.Known() {
		return 0
	}
	return int(groups[g].bits / 8)
}

// String returns the name of RFC 7919.
func (g Group) String() string {
	if g == NoGroup || !g.Known() {
		return fmt.Sprintf("group %d", uint8(g))
	}
	return fmt.Sprintf("ffdhe%d", groups[g].bits)
}

var primes [len(groups)]struct {
	once sync.Once
	p    *big.Int
}

// Prime returns the group's prime: 2^b - 2^(b-64) + (floor(2^(b-130) e) + X) 2^64 - 1 (RFC 7919,
// appendix A). The generator is 2. The group must not be NoGroup, and the caller must not change the
// number.
func (g Group) Prime() *big.Int {
	c := &primes[g]
	c.once.Do(func() {
		bits := uint(groups[g].bits)
		one := big.NewInt(1)
		p := floorE(bits - 130)
		p.Add(p, big.NewInt(groups[g].x)).Lsh(p, 64)
		p.Add(p, new(big.Int).Lsh(one, bits)).Sub(p, new(big.Int).Lsh(one, bits-64)).Sub(p, one)
		c.p = p
	})
	return c.p
}

// floorE returns 2^n e without the fraction: the sum of 2^n / k!.
func floorE(n uint) *big.Int {
	const guard = 64 // bits for the fractions that are cut off
	term := new(big.Int).Lsh(big.NewInt(1), n+guard)
	sum := new(big.Int)
	for k := int64(1); term.Sign() > 0; k++ {
		sum.Add(sum, term)
		term.Quo(term, big.NewInt(k))
	}
	return sum.Rsh(sum, guard)
}
