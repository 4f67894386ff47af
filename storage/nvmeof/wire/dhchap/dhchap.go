// Package dhchap has the messages of DH-HMAC-CHAP, by which a host and a controller prove to each
// other that they know a secret (base 2.0, 8.13). They are the data of the fabrics commands
// authentication send and authentication receive.
package dhchap

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"fmt"
	"hash"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/format"
)

var le = binary.LittleEndian

// MaxLen is how long a message may be, in bytes. The longest has two responses and a public value.
const MaxLen = 4096

// A Hash is a hash function.
type Hash uint8

// The hash functions.
const (
	SHA256 Hash = 1 + iota
	SHA384
	SHA512
)

// New returns a hash, nil of an unknown function.
func (h Hash) New() hash.Hash {
	switch h {
	case SHA256:
		return sha256.New()
	case SHA384:
		return sha512.New384()
	case SHA512:
		return sha512.New()
	}
	return nil
}

// Len returns how long hashes are, in bytes: 0 of an unknown function.
func (h Hash) Len() int {
	if h < SHA256 || h > SHA512 {
		return 0
	}
	return 16 + 16*int(h)
}

// A Kind is what a message is: its type in the upper byte, and its identifier.
type Kind uint16

// The kinds. Hosts send those to the left in the specification's figures.
const (
	KindNegotiate Kind = 0x0000
	KindFailure2  Kind = 0x00f0
	KindFailure1  Kind = 0x00f1
	KindChallenge Kind = 0x0101
	KindReply     Kind = 0x0102
	KindSuccess1  Kind = 0x0103
	KindSuccess2  Kind = 0x0104
)

// HeadLen is the length of what all messages begin with, in bytes.
const HeadLen = 6

// ParseKind returns the kind and the transaction of a message.
func ParseKind(b []byte) (k Kind, transaction uint16, err error) {
	if err := format.Needs(b, HeadLen, "authentication message"); err != nil {
		return 0, 0, err
	}
	return Kind(b[0])<<8 | Kind(b[1]), le.Uint16(b[4:]), nil
}

// head checks what a message begins with.
func head(b []byte, want Kind, n int, structure string) (transaction uint16, err error) {
	if err := format.Needs(b, n, structure); err != nil {
		return 0, err
	}
	k, transaction, _ := ParseKind(b)
	if k != want {
		return 0, format.Wrong(structure, "message", uint64(want), uint64(k))
	}
	return transaction, nil
}

func grow(b []byte, n int, k Kind, transaction uint16) (all, p []byte) {
	all, p = format.Grow(b, n)
	p[0], p[1] = byte(k>>8), byte(k)
	le.PutUint16(p[4:], transaction)
	return all, p
}

const (
	protocolLen = 64
	maxIDs      = 30 // hashes, and groups
	protocolID  = 1
)

// A Negotiate message says what the host can do.
type Negotiate struct {
	Transaction   uint16
	SecureChannel uint8 // 0: none
	Hashes        []Hash
	Groups        []Group
}

// ParseNegotiate parses a message. Protocols other than DH-HMAC-CHAP are left out.
func ParseNegotiate(b []byte) (n Negotiate, err error) {
	const structure = "authentication negotiate"
	if n.Transaction, err = head(b, KindNegotiate, 8, structure); err != nil {
		return n, err
	}
	n.SecureChannel = b[6]
	protocols := int(b[7])
	if err := format.Needs(b, 8+protocols*protocolLen, structure); err != nil {
		return n, err
	}
	for i := range protocols {
		p := b[8+i*protocolLen:][:protocolLen]
		if p[0] != protocolID {
			continue
		}
		for _, f := range []struct {
			name string
			n    byte
		}{{"hashes", p[2]}, {"groups", p[3]}} {
			if f.n > maxIDs {
				return n, format.Wrong(structure, f.name, maxIDs, uint64(f.n))
			}
		}
		for _, id := range p[4:][:p[2]] {
			n.Hashes = append(n.Hashes, Hash(id))
		}
		for _, id := range p[4+maxIDs:][:p[3]] {
			n.Groups = append(n.Groups, Group(id))
		}
		return n, nil
	}
	return n, format.Wrong(structure, "protocol", protocolID, 0)
}

// Append appends the message.
func (n *Negotiate) Append(b []byte) []byte {
	b, p := grow(b, 8+protocolLen, KindNegotiate, n.Transaction)
	p[6], p[7] = n.SecureChannel, 1
	p = p[8:]
	p[0], p[2], p[3] = protocolID, byte(len(n.Hashes)), byte(len(n.Groups))
	for i, h := range n.Hashes {
		p[4+i] = byte(h)
	}
	for i, g := range n.Groups {
		p[4+maxIDs+i] = byte(g)
	}
	return b
}

// A Challenge is what the host must respond to.
type Challenge struct {
	Transaction uint16
	Hash        Hash
	Group       Group
	Sequence    uint32
	Challenge   []byte // as long as the hash
	Public      []byte // of the group
}

const challengeLen = 16

// ParseChallenge parses a message. The slices are parts of b.
func ParseChallenge(b []byte) (c Challenge, err error) {
	const structure = "authentication challenge"
	if c.Transaction, err = head(b, KindChallenge, challengeLen, structure); err != nil {
		return c, err
	}
	c.Hash, c.Group, c.Sequence = Hash(b[8]), Group(b[9]), le.Uint32(b[12:])
	n, public := int(b[6]), int(le.Uint16(b[10:]))
	if n != c.Hash.Len() || n == 0 {
		return c, format.Wrong(structure, "hash length", uint64(c.Hash.Len()), uint64(n))
	}
	if err := format.Needs(b, challengeLen+n+public, structure); err != nil {
		return c, err
	}
	c.Challenge, c.Public = b[challengeLen:][:n], b[challengeLen+n:][:public]
	return c, nil
}

// Append appends the message.
func (c *Challenge) Append(b []byte) []byte {
	b, p := grow(b, challengeLen, KindChallenge, c.Transaction)
	p[6], p[8], p[9] = byte(len(c.Challenge)), byte(c.Hash), byte(c.Group)
	le.PutUint16(p[10:], uint16(len(c.Public)))
	le.PutUint32(p[12:], c.Sequence)
	return append(append(b, c.Challenge...), c.Public...)
}

// A Reply is the host's response, with a challenge of its own if the controller must respond, too.
type Reply struct {
	Transaction uint16
	Sequence    uint32
	Response    []byte
	Challenge   []byte // nil if there is none
	Public      []byte
}

const replyLen = 16

// ParseReply parses a message. The slices are parts of b.
func ParseReply(b []byte) (r Reply, err error) {
	const structure = "authentication reply"
	if r.Transaction, err = head(b, KindReply, replyLen, structure); err != nil {
		return r, err
	}
	n, public := int(b[6]), int(le.Uint16(b[10:]))
	r.Sequence = le.Uint32(b[12:])
	if err := format.Needs(b, replyLen+2*n+public, structure); err != nil {
		return r, err
	}
	r.Response = b[replyLen:][:n]
	if b[8]&1 != 0 {
		r.Challenge = b[replyLen+n:][:n]
	}
	r.Public = b[replyLen+2*n:][:public]
	return r, nil
}

// Append appends the message.
func (r *Reply) Append(b []byte) []byte {
	b, p := grow(b, replyLen, KindReply, r.Transaction)
	p[6] = byte(len(r.Response))
	le.PutUint16(p[10:], uint16(len(r.Public)))
	le.PutUint32(p[12:], r.Sequence)
	challenge := r.Challenge
	if challenge != nil {
		p[8] = 1
	} else {
		challenge = make([]byte, len(r.Response))
	}
	return append(append(append(b, r.Response...), challenge...), r.Public...)
}

// A Success1 message says that the host's response is right.
type Success1 struct {
	Transaction uint16
	Response    []byte // to the host's challenge, nil if there was none
}

const success1Len = 16

// ParseSuccess1 parses a message. The slice is a part of b.
func ParseSuccess1(b []byte) (s Success1, err error) {
	const structure = "authentication success"
	if s.Transaction, err = head(b, KindSuccess1, success1Len, structure); err != nil || b[8]&1 == 0 {
		return s, err
	}
	n := int(b[6])
	if err := format.Needs(b, success1Len+n, structure); err != nil {
		return s, err
	}
	s.Response = b[success1Len:][:n]
	return s, nil
}

// Append appends the message, with a hash's length.
func (s *Success1) Append(b []byte, h Hash) []byte {
	b, p := grow(b, success1Len+h.Len(), KindSuccess1, s.Transaction)
	p[6] = byte(h.Len())
	if s.Response != nil {
		p[8] = 1
		copy(p[success1Len:], s.Response)
	}
	return b
}

// ParseSuccess2 parses the message by which a host says that the controller's response is right.
func ParseSuccess2(b []byte) (transaction uint16, err error) {
	return head(b, KindSuccess2, 16, "authentication success")
}

// AppendSuccess2 appends that message.
func AppendSuccess2(b []byte, transaction uint16) []byte {
	b, _ = grow(b, 16, KindSuccess2, transaction)
	return b
}

// A Why explains a failure.
type Why uint8

// The explanations.
const (
	Failed Why = 1 + iota
	ProtocolUnusable
	ChannelUnusable
	HashUnusable
	GroupUnusable
	PayloadWrong
	MessageWrong
)

var whyTexts = [...]string{
	Failed: "the response is wrong", ProtocolUnusable: "the protocol is not usable", ChannelUnusable: "secure channels differ",
	HashUnusable: "the hash function is not usable", GroupUnusable: "the Diffie-Hellman group is not usable",
	PayloadWrong: "the message is malformed", MessageWrong: "the message is not expected",
}

// String returns the explanation.
func (w Why) String() string {
	if w == 0 || int(w) >= len(whyTexts) {
		return fmt.Sprintf("explanation %d", uint8(w))
	}
	return whyTexts[w]
}

// A Failure ends an authentication. FromHost says which side it is from.
type Failure struct {
	Transaction uint16
	FromHost    bool
	Why         Why
}

const reasonFailed = 1

// ParseFailure parses a message. Some hosts send theirs with the type of DH-HMAC-CHAP.
func ParseFailure(b []byte) (f Failure, err error) {
	const structure = "authentication failure"
	if err := format.Needs(b, 8, structure); err != nil {
		return f, err
	}
	k, transaction, _ := ParseKind(b)
	switch k & 0xff {
	case KindFailure1:
	case KindFailure2:
		f.FromHost = true
	default:
		return f, format.Wrong(structure, "message", uint64(KindFailure1), uint64(k))
	}
	f.Transaction, f.Why = transaction, Why(b[7])
	return f, nil
}

// Append appends the message.
func (f Failure) Append(b []byte) []byte {
	k := KindFailure1
	if f.FromHost {
		k = KindFailure2
	}
	b, p := grow(b, 16, k, f.Transaction)
	p[6], p[7] = reasonFailed, byte(f.Why)
	return b
}

// protocol is the security protocol of the commands, with its specific fields.
const protocol = 0xe9<<24 | 1<<16 | 1<<8

// CommandFields returns the length of the data of an authentication command. It reports false if the
// command is for another security protocol.
func CommandFields(c *capsule.Command) (length uint32, ok bool) {
	return c.CDW11, c.CDW10&^0xff == protocol
}

// Command returns the command that sends a message of a length, or that receives one.
func Command(send bool, length int) capsule.Command {
	c := capsule.Command{Opcode: capsule.OpFabrics, Flags: capsule.FlagSGL, NSID: uint32(capsule.FabricsAuthReceive), CDW10: protocol, CDW11: uint32(length)}
	if send {
		c.NSID = uint32(capsule.FabricsAuthSend)
	}
	return c
}
