package reason

import (
	"fmt"
	"iter"
)

// Each subject has a room: a file with its reasons, their rows, and the room's
// number, which no other file has. Room n has the numbers from n·roomSize on.
// Append new reasons to their room, and a new room in a file of its own.
const (
	roomSize Reason = 64
	Count           = 32 * roomSize // above every number: the length of arrays with an element for each reason
)

// A row is the name of a reason and its sentence.
type row struct {
	reason Reason
	name   string
	format string // takes expected, then found
}

// kinds holds the kinds of the expected and the found number of reasons that have
// numbers with names. Such a number has the verb %v in the reason's format.
type kinds map[Reason][2]Number

// A room is what register was called with.
type room struct {
	rows  []row
	kinds kinds
}

var rooms [Count / roomSize]room

// register adds a room. The rows have the order of their numbers.
func register(number Reason, rows []row, kinds kinds) struct{} {
	if number == 0 || rooms[number].rows != nil || len(rows) > int(roomSize) {
		panic(fmt.Sprintf("reason: room %d is taken, or %d reasons are too many", number, len(rows)))
	}
	for i, r := range rows {
		if r.reason != number*roomSize+Reason(i) {
			panic(fmt.Sprintf("reason: %s has number %d, expected %d", r.name, r.reason, number*roomSize+Reason(i)))
		}
	}
	rooms[number] = room{rows, kinds}
	return struct{}{}
}

// Known reports whether r is a reason of this version.
func (r Reason) Known() bool { return r < Count && int(r%roomSize) < len(rooms[r/roomSize].rows) }

// row returns the row of a known reason.
func (r Reason) row() *row { return &rooms[r/roomSize].rows[r%roomSize] }

// All returns the reasons in the order of their numbers.
func All() iter.Seq[Reason] {
	return func(yield func(Reason) bool) {
		for i := range rooms {
			for j := range rooms[i].rows {
				if !yield(rooms[i].rows[j].reason) {
					return
				}
			}
		}
	}
}

// Named returns the reason with a name. Other versions may have other reasons.
func Named(name string) (r Reason, known bool) {
	for r := range All() {
		if r.String() == name {
			return r, true
		}
	}
	return None, false
}
