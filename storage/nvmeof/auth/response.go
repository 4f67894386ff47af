package auth

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"math/big"

	"softrdma/storage/nvmeof/wire/dhchap"
)

// Secrets are what one side knows.
type Secrets struct {
	Host       Secret // by which the host is authenticated
	Controller Secret // by which the controller is; zero: it is not
}

// Names are the qualified names of both sides.
type Names struct{ Host, Subsystem string }

// random returns unpredictable bytes.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// A response is what a side computes from a challenge.
type response struct {
	hash        dhchap.Hash
	session     []byte // shared by Diffie-Hellman, nil without a group
	challenge   []byte
	sequence    uint32
	transaction uint16
}

// of returns the response of the owner of a key to the other side's challenge (base 2.0, 8.13.5.4).
func (r *response) of(key []byte, role, owner, other string) []byte {
	challenge := r.challenge
	if r.session != nil {
		h := r.hash.New()
		h.Write(r.session)
		challenge = mac(r.hash, h.Sum(nil), challenge)
	}
	var numbers [7]byte // the last is that of no secure channel
	binary.LittleEndian.PutUint32(numbers[:], r.sequence)
	binary.LittleEndian.PutUint16(numbers[4:], r.transaction)
	return mac(r.hash, key, challenge, numbers[:], []byte(role), []byte(owner), []byte{0}, []byte(other))
}

// host returns the host's response.
func (r *response) host(s Secret, n Names) []byte {
	return r.of(s.bound(n.Host), "HostHost", n.Host, n.Subsystem)
}

// controller returns the controller's response.
func (r *response) controller(s Secret, n Names) []byte {
	return r.of(s.bound(n.Subsystem), "Controller", n.Subsystem, n.Host)
}

// exponentBits is the length of private exponents. RFC 7919 5.2 asks for 400 for the largest group.
const exponentBits = 512

// A pair is a side's half of Diffie-Hellman.
type pair struct {
	group   dhchap.Group
	private *big.Int
	public  []byte // nil of no group
}

func newPair(g dhchap.Group) pair {
	if g == dhchap.NoGroup {
		return pair{}
	}
	private := new(big.Int).SetBytes(random(exponentBits / 8))
	private.SetBit(private, exponentBits-1, 1)
	public := new(big.Int).Exp(big.NewInt(2), private, g.Prime())
	return pair{g, private, public.FillBytes(make([]byte, g.Len()))}
}

var errPublic = errors.New("the public value is not one of the group")

// session returns the secret that both sides compute, nil without a group. The other's value must
// lie between 1 and p-1 (RFC 7919 5.1).
func (p *pair) session(other []byte) ([]byte, error) {
	if p.group == dhchap.NoGroup {
		if len(other) != 0 {
			return nil, errPublic
		}
		return nil, nil
	}
	y, prime := new(big.Int).SetBytes(other), p.group.Prime()
	one := big.NewInt(1)
	if len(other) != p.group.Len() || y.Cmp(one) <= 0 || y.Cmp(new(big.Int).Sub(prime, one)) >= 0 {
		return nil, errPublic
	}
	return y.Exp(y, p.private, prime).FillBytes(make([]byte, p.group.Len())), nil
}
