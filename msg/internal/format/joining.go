package format

import (
	"encoding/binary"
	"fmt"

	"softrdma/internal/message"
	"softrdma/verbs"
)

// A Token names a group to both workers.
type Token [8]byte

// A Pair is a rail of a group: a device of each worker.
type Pair struct{ Own, Peer int }

// Pairs returns the devices of a worker and of another that an endpoint connects: each with one of the
// same protocol.
func Pairs(from, a *Address) (list []Pair) {
	own, peers := map[verbs.Protocol][]int{}, map[verbs.Protocol][]int{}
	for i, r := range from.Rails {
		own[r.Protocol] = append(own[r.Protocol], i)
	}
	for i, r := range a.Rails {
		peers[r.Protocol] = append(peers[r.Protocol], i)
	}
	for i, r := range from.Rails {
		from, to := own[r.Protocol], peers[r.Protocol]
		if len(to) == 0 || from[0] != i {
			continue
		}
		for k := range max(len(from), len(to)) {
			list = append(list, Pair{from[k%len(from)], to[k%len(to)]})
		}
	}
	return list[:min(len(list), message.MaxRails)]
}

// A Joining says which rail of which group a request is for. It is the private data of the request.
//
//	token (8 bytes) | rail (1) | bit 7: the group is new; number of rails (1)
//	number of the rail's connection, from 1 (4)
//	for each rail the devices of the client and the server (4 bits each)
type Joining struct {
	Token      Token
	Rail       int
	Connection uint32
	New        bool
	Pairs      []Pair // of the client
}

const joiningLen = 14 // without the pairs

// Bytes returns the private data of the client, whose pairs they are.
func (j *Joining) Bytes() []byte {
	n := byte(len(j.Pairs))
	if j.New {
		n |= 1 << 7
	}
	b := binary.BigEndian.AppendUint32(append(j.Token[:], byte(j.Rail), n), j.Connection)
	for _, p := range j.Pairs {
		b = append(b, byte(p.Own<<4|p.Peer))
	}
	return b
}

// ParseJoining reads the private data of a request to a worker with a number of devices. The pairs are
// those of the server.
func ParseJoining(b []byte, devices int) (j Joining, err error) {
	if len(b) < joiningLen || len(b) != joiningLen+int(b[9]&0x7f) || len(b) > joiningLen+message.MaxRails || int(b[8]) >= len(b)-joiningLen {
		return j, fmt.Errorf("%w: %d bytes about rails", ErrAddress, len(b))
	}
	j = Joining{Token: Token(b), Rail: int(b[8]), Connection: binary.BigEndian.Uint32(b[10:]), New: b[9]>>7 != 0}
	if j.Connection == 0 || j.New && j.Connection != 1 {
		return j, fmt.Errorf("%w: connection %d of a rail, of a new group %v", ErrAddress, j.Connection, j.New)
	}
	for _, x := range b[joiningLen:] {
		p := Pair{Own: int(x & 15), Peer: int(x >> 4)}
		if p.Own >= devices || p.Peer >= message.MaxRails {
			return j, fmt.Errorf("%w: rail of devices %d and %d, this worker has %d", ErrAddress, p.Own, p.Peer, devices)
		}
		j.Pairs = append(j.Pairs, p)
	}
	return j, nil
}
