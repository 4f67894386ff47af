package adapter

import (
	"sync/atomic"

	"softrdma/internal/object"
)

// uses counts the objects that use another object. The object cannot be destroyed
// before them, and has no new users afterwards.
type uses struct{ n atomic.Int32 }

// gone is the count of an object that was destroyed.
const gone = -1 << 30

// hold counts one more user. It reports false if the object was destroyed.
func (u *uses) hold() bool {
	if u.n.Add(1) > 0 {
		return true
	}
	u.n.Add(-1)
	return false
}

// drop ends a hold.
func (u *uses) drop() { u.n.Add(-1) }

// gone reports whether the object was destroyed.
func (u *uses) gone() bool { return u.n.Load() < 0 }

// end destroys the object, unless it has users. It reports whether this call did: a
// second call is no error and has nothing left to do.
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
