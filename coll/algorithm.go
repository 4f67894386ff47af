package coll

import (
	"errors"
	"fmt"
)

// An Operation is a collective operation.
type Operation uint8

// The operations of a group. Those with counts are the same operations as those without.
const (
	OpBarrier Operation = iota + 1
	OpBroadcast
	OpReduce
	OpAllReduce
	OpReduceScatter
	OpScan
	OpGather
	OpScatter
	OpAllGather
	OpAllToAll

	operations = iota + 1
)

var operationNames = [...]string{"", "barrier", "broadcast", "reduce", "all-reduce", "reduce-scatter", "scan", "gather", "scatter", "all-gather", "all-to-all"}

func (o Operation) String() string {
	if o == 0 || int(o) >= len(operationNames) {
		return fmt.Sprintf("operation %d", uint8(o))
	}
	return operationNames[o]
}

// An Algorithm is a pattern of messages by which a group executes an operation.
type Algorithm uint8

// The algorithms. Auto chooses by size, number of members and operation; docs/coll.md has the rules.
const (
	Auto              Algorithm = iota
	Linear                      // the root exchanges a message with each member
	Binomial                    // a tree in which each member doubles those that have taken part
	RecursiveDoubling           // members exchange in pairs, at doubling distances
	Rabenseifner                // reduce-scatter by halving, then gather by doubling
	Ring                        // blocks travel from neighbor to neighbor
	ScatterAllGather            // the root scatters blocks, which travel along a ring
	Pairwise                    // each member exchanges with each other
	Bruck                       // blocks travel together, at doubling distances
	Dissemination               // each member informs others at doubling distances
	Mapped                      // members read each other's memory in place
)

var algorithmNames = [...]string{"automatic", "linear", "binomial", "recursive doubling", "Rabenseifner", "ring", "scatter and all-gather", "pairwise", "Bruck", "dissemination", "mapped"}

func (a Algorithm) String() string {
	if int(a) >= len(algorithmNames) {
		return fmt.Sprintf("algorithm %d", uint8(a))
	}
	return algorithmNames[a]
}

// describe names the operation and algorithm in a tag.
func describe(what uint16) string {
	return fmt.Sprintf("%v (%v)", Operation(what>>5), Algorithm(what&31))
}

// choices are the algorithms of each operation.
var choices = [operations][]Algorithm{
	OpBarrier:       {Dissemination, Mapped},
	OpBroadcast:     {Binomial, ScatterAllGather, Mapped},
	OpReduce:        {Binomial, Rabenseifner, Mapped},
	OpAllReduce:     {RecursiveDoubling, Rabenseifner, Ring, Pairwise, Mapped},
	OpReduceScatter: {Pairwise, Ring, Mapped},
	OpScan:          {RecursiveDoubling},
	OpGather:        {Binomial, Linear},
	OpScatter:       {Binomial, Linear},
	OpAllGather:     {Bruck, Ring, Mapped},
	OpAllToAll:      {Bruck, Pairwise, Mapped},
}

// Algorithms returns the algorithms of an operation.
func (o Operation) Algorithms() []Algorithm {
	if int(o) >= len(choices) {
		return nil
	}
	return append([]Algorithm(nil), choices[o]...)
}

// SetAlgorithm sets the algorithm of an operation on this group and on those that Split makes of it
// later. All members set the same. The error matches errors.ErrUnsupported if the operation has no
// such algorithm.
func (g *Group) SetAlgorithm(o Operation, a Algorithm) error {
	valid := int(o) < len(choices) && choices[o] != nil && a == Auto
	if int(o) < len(choices) {
		for _, x := range choices[o] {
			valid = valid || x == a
		}
	}
	if !valid {
		return fmt.Errorf("coll: %v of %v: %w", a, o, errors.ErrUnsupported)
	}
	g.algorithm[o] = a
	return nil
}

// choose returns the algorithm that was set for an operation, or else the automatic choice.
func (g *Group) choose(o Operation, automatic Algorithm) Algorithm {
	if a := g.algorithm[o]; a != Auto {
		return a
	}
	return automatic
}

// Lengths in bytes from which Auto chooses algorithms for long messages.
const (
	longBroadcast = 128 << 10
	longReduce    = 32 << 10 // of reductions
	longGather    = 32 << 10 // of each member
	longExchange  = 1 << 10  // of each pair of members
)

// segment is the length of pieces in which long blocks travel, so that members reduce one while
// the next is on its way. It fits into the cache of a processor.
const segment = 256 << 10

// blocks divides n elements into parts whose lengths differ by one at most, the longer first.
type blocks struct{ n, parts int }

func (b blocks) start(i int) int { return i*(b.n/b.parts) + min(i, b.n%b.parts) }

// of returns the part i of x.
func of[T any](x []T, b blocks, i int) []T { return x[b.start(i):b.start(i+1)] }
