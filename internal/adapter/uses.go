package adapter

import (
	"softrdma/internal/object"
	"sync/atomic"
)

// uses counts the objects that use another one, which cannot be given up
// before they are, and refuses new ones once it is.
type uses struct{ n atomic.Int32 }

// gone is the count of an object that was given up.
const gone = -1 << 30

// hold counts one more user, unless the object is gone.
func (u *uses) hold() bool {
	if u.n.Add(1) > 0 {
		return true
	}
	u.n.Add(-1)
	return false
}

// drop ends a hold.
func (u *uses) drop() { u.n.Add(-1) }

// gone tells whether the object was given up.
func (u *uses) gone() bool { return u.n.Load() < 0 }

// end gives the object up, unless it has users. It tells whether this call did
// it: a second one is no error and has nothing left to do.
func (u *uses) end(what string) (did bool, err error) {
	for !u.n.CompareAndSwap(0, gone) {
		switch n := u.n.Load(); {
		case n < 0:
			return false, nil
		case n > 0:
			return false, object.Busy(what, int(n))
		}
	}
	return true, nil
}
