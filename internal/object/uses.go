package object

import "sync/atomic"

// Uses counts the objects that use another object. The object cannot be destroyed before them,
// and gets no new users afterwards.
type Uses struct{ n atomic.Int32 }

// gone is the count of an object that was destroyed.
const gone = -1 << 30

// Hold adds a user. It reports false if the object was destroyed.
func (u *Uses) Hold() bool {
	if u.n.Add(1) > 0 {
		return true
	}
	u.n.Add(-1)
	return false
}

// Drop undoes Hold.
func (u *Uses) Drop() { u.n.Add(-1) }

// Gone reports whether the object was destroyed.
func (u *Uses) Gone() bool { return u.n.Load() < 0 }

// Count returns how many users there are, 0 if the object was destroyed.
func (u *Uses) Count() int { return int(max(u.n.Load(), 0)) }

// End destroys the object, unless it has users. It reports whether this call did: a second
// call is no error and does nothing.
func (u *Uses) End(what string) (did bool, err error) {
	for !u.n.CompareAndSwap(0, gone) {
		switch n := u.n.Load(); {
		case n < 0:
			return false, nil
		case n > 0:
			return false, Busy(what, int(n))
		}
	}
	return true, nil
}
