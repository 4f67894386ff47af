package samehost

import (
	"os/user"
	"slices"
	"strconv"

	"softrdma/internal/reason"
)

// overflowUID is the number of users that are not mapped into this user namespace.
const overflowUID = 65534

// users holds the users that may be peers.
type users struct {
	own    uint32
	mapped bool // every user has a number here, so 65534 is an ordinary user
	all    bool
	others []uint32
}

// newUsers parses names and numbers of users, and "all".
func newUsers(own uint32, mapped bool, allow []string) (*users, error) {
	u := &users{own: own, mapped: mapped}
	for _, name := range allow {
		if name == "all" {
			u.all = true
			continue
		}
		id, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			found, e := user.Lookup(name)
			if e != nil {
				return nil, reason.BadArgument(0, 0, "user %q of the memory path: %v", name, e)
			}
			if id, err = strconv.ParseUint(found.Uid, 10, 32); err != nil {
				return nil, reason.BadArgument(0, 0, "user %q of the memory path: expected a numeric ID, found %q", name, found.Uid)
			}
		}
		u.others = append(u.others, uint32(id))
	}
	return u, nil
}

// CheckUsers returns an error if a name in Config.Allow is unknown.
func CheckUsers(allow []string) error {
	_, err := newUsers(0, true, allow)
	return err
}

// same reports whether a user is this process's own.
func (u *users) same(uid uint32) bool { return uid == u.own && u.known(uid) }

// known reports whether the number stands for one user.
func (u *users) known(uid uint32) bool { return uid != overflowUID || u.mapped }

// shared reports whether other users may be peers.
func (u *users) shared() bool { return u.all || len(u.others) > 0 }

// check returns the reason why a user may not be a peer, or nil.
func (u *users) check(uid uint32) error {
	if u.all || u.known(uid) && (uid == u.own || slices.Contains(u.others, uid)) {
		return nil
	}
	return reason.Detail{Reason: reason.HostUser, Expected: uint64(u.own), Found: uint64(uid)}.Err()
}
