package format

import (
	"fmt"

	"softrdma/internal/message"
	"softrdma/verbs"
)

// A Token names a group to both workers.
type Token [8]byte

// A Pair is a rail of a group: a device of each worker.
type Pair struct{ Own, Peer int }

// Pairs returns the devices of a worker, whose protocols it gets, and of another that an endpoint
// connects: each with one of the same protocol.
func Pairs(devices []verbs.Protocol, a *Address) (list []Pair) {
	own, peers := map[verbs.Protocol][]int{}, map[verbs.Protocol][]int{}
	for i, p := range devices {
		own[p] = append(own[p], i)
	}
	for i, r := range a.Rails {
		peers[r.Protocol] = append(peers[r.Protocol], i)
	}
	for i, p := range devices {
		from, to := own[p], peers[p]
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
//	for each rail the devices of the client and the server (4 bits each)
type Joining struct {
	Token Token
	Rail  int
	New   bool
	Pairs []Pair // of the client
}

// Bytes returns the private data of the client, whose pairs they are.
func (j *Joining) Bytes() []byte {
	n := byte(len(j.Pairs))
	if j.New {
		n |= 1 << 7
	}
	b := append(j.Token[:], byte(j.Rail), n)
	for _, p := range j.Pairs {
		b = append(b, byte(p.Own<<4|p.Peer))
	}
	return b
}

// ParseJoining reads the private data of a request to a worker with a number of devices. The pairs are
// those of the server.
func ParseJoining(b []byte, devices int) (j Joining, err error) {
	if len(b) < 10 || len(b) != 10+int(b[9]&0x7f) || len(b) > 10+message.MaxRails || int(b[8]) >= len(b)-10 {
		return j, fmt.Errorf("%w: %d bytes about rails", ErrAddress, len(b))
	}
	j = Joining{Token: Token(b), Rail: int(b[8]), New: b[9]>>7 != 0}
	for _, x := range b[10:] {
		p := Pair{Own: int(x & 15), Peer: int(x >> 4)}
		if p.Own >= devices || p.Peer >= message.MaxRails {
			return j, fmt.Errorf("%w: rail of devices %d and %d, this worker has %d", ErrAddress, p.Own, p.Peer, devices)
		}
		j.Pairs = append(j.Pairs, p)
	}
	return j, nil
}
