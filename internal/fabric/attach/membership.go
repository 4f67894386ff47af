package attach

import "softrdma/internal/wire/mad"

// A Membership is a multicast group that a program has joined at the subnet administrator, or on
// Ethernet at its port (fabric.Group, fabric.GroupMAC). The fabric leaves it for a program that ends without leaving it, as the kernel of a host does.
type Membership struct {
	MGID  mad.GID
	State uint8 // JoinState
}

// memberLen is the length of a message of kind Member.
const memberLen = 1 + 1 + 1 + 16

// message returns the beginning or the end of the membership as a message:
//
//	kind (1), 1 for the beginning (1), JoinState (1), MGID (16)
func (m *Membership) message(on bool) []byte {
	b := []byte{byte(Member), 0, m.State}
	if on {
		b[1] = 1
	}
	return append(b, m.MGID[:]...)
}

// Parse reads a message of kind Member, and reports whether a membership begins.
func (m *Membership) Parse(b []byte) (on bool, err error) {
	if len(b) != memberLen || b[1] > 1 || b[2] == 0 || b[2] > 15 || b[3] != 0xff {
		return false, malformed(memberLen, uint64(len(b)))
	}
	m.State, m.MGID = b[2], mad.GID(b[3:])
	return b[1] == 1, nil
}
