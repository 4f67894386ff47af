package auth

import (
	"bytes"
	"crypto/hmac"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"softrdma/storage/nvmeof/wire/dhchap"
)

// An Error is why an authentication has failed.
type Error struct {
	Why dhchap.Why
	Err error // what is wrong with a message, or nil
}

// Error returns the explanation.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("authentication: %v: %v", e.Why, e.Err)
	}
	return fmt.Sprintf("authentication: %v", e.Why)
}

// Unwrap returns what is wrong with a message.
func (e *Error) Unwrap() error { return e.Err }

// fail returns an error of an explanation.
func fail(why dhchap.Why, format string, args ...any) *Error {
	return &Error{why, fmt.Errorf(format, args...)}
}

// hashes and groups are those that both sides have, the preferred first.
var (
	hashes = []dhchap.Hash{dhchap.SHA256, dhchap.SHA384, dhchap.SHA512}
	groups = []dhchap.Group{dhchap.FFDHE2048, dhchap.FFDHE3072, dhchap.FFDHE4096, dhchap.FFDHE6144, dhchap.FFDHE8192, dhchap.NoGroup}
)

// A Controller is the controller's side on one queue. A host may authenticate again at any time. The
// methods may be called from any goroutine.
type Controller struct {
	names   Names
	secrets Secrets

	done atomic.Bool // written with mu held, which is held while Send computes

	mu   sync.Mutex
	want dhchap.Kind // the next message of the host
	next []byte      // message to the host, nil if there is none
	pair pair
	response
	failure *Error

	negotiations int // since the host was authenticated last
}

// maxNegotiations is how often a host may begin without success. Each makes the controller compute.
const maxNegotiations = 4

// NewController returns the side of a controller. The host's secret is required.
func NewController(n Names, s Secrets) *Controller {
	return &Controller{names: n, secrets: s, want: dhchap.KindNegotiate}
}

// Done reports whether the host is authenticated. It does not wait for Send.
func (c *Controller) Done() bool { return c.done.Load() }

// Send takes a message of the host. If it is wrong, Receive returns the failure.
func (c *Controller) Send(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.take(b); e != nil {
		c.done.Store(false)
		c.want, c.failure = dhchap.KindNegotiate, e
		c.next = dhchap.Failure{Transaction: c.transaction, Why: e.Why}.Append(nil)
	}
}

// Receive copies the next message to the host to b, fills the rest with zeros, and reports whether
// there was one that fits. The error is why the host is not authenticated, with the message that says
// so.
func (c *Controller) Receive(b []byte) (ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil || len(c.next) > len(b) {
		return false, nil
	}
	clear(b[copy(b, c.next):])
	c.next = nil
	if c.failure != nil {
		err, c.failure = c.failure, nil
	}
	return true, err
}

func (c *Controller) take(b []byte) *Error {
	k, transaction, err := dhchap.ParseKind(b)
	switch {
	case err != nil:
		return &Error{dhchap.PayloadWrong, err}
	case k == dhchap.KindNegotiate: // also to begin again
		return c.negotiate(b)
	case k&0xff == dhchap.KindFailure2:
		return fail(dhchap.Failed, "the host says so")
	case k != c.want:
		return fail(dhchap.MessageWrong, "expected message %#04x, found %#04x", uint16(c.want), uint16(k))
	case transaction != c.transaction:
		return fail(dhchap.MessageWrong, "expected transaction %d, found %d", c.transaction, transaction)
	case k == dhchap.KindReply:
		return c.reply(b)
	}
	if _, err := dhchap.ParseSuccess2(b); err != nil {
		return &Error{dhchap.PayloadWrong, err}
	}
	c.succeed()
	return nil
}

// negotiate chooses what both sides have, and challenges the host.
func (c *Controller) negotiate(b []byte) *Error {
	n, err := dhchap.ParseNegotiate(b)
	c.transaction = n.Transaction
	if err != nil {
		return &Error{dhchap.PayloadWrong, err}
	}
	if c.negotiations++; c.negotiations > maxNegotiations {
		return fail(dhchap.Failed, "expected at most %d negotiations without success, found one more", maxNegotiations)
	}
	if n.SecureChannel != 0 {
		return fail(dhchap.ChannelUnusable, "expected no secure channel, found %d", n.SecureChannel)
	}
	hash := slices.IndexFunc(hashes, func(h dhchap.Hash) bool { return slices.Contains(n.Hashes, h) })
	group := slices.IndexFunc(groups, func(g dhchap.Group) bool { return slices.Contains(n.Groups, g) })
	switch {
	case hash < 0:
		return fail(dhchap.HashUnusable, "expected one of %v, found %v", hashes, n.Hashes)
	case group < 0:
		return fail(dhchap.GroupUnusable, "expected one of %v, found %v", groups, n.Groups)
	}
	c.hash, c.pair = hashes[hash], newPair(groups[group])
	c.response.challenge = random(c.hash.Len())
	c.sequence = sequence()
	m := dhchap.Challenge{
		Transaction: c.transaction, Hash: c.hash, Group: groups[group], Sequence: c.sequence, Challenge: c.response.challenge, Public: c.pair.public,
	}
	c.next, c.want, c.failure = m.Append(nil), dhchap.KindReply, nil
	return nil
}

func (c *Controller) succeed() {
	c.done.Store(true)
	c.want, c.negotiations = dhchap.KindNegotiate, 0
}

// sequence returns a number that is not 0, which stands for none.
func sequence() uint32 { return binary.LittleEndian.Uint32(random(4)) | 1 }

// reply checks the host's response and answers its challenge.
func (c *Controller) reply(b []byte) *Error {
	r, err := dhchap.ParseReply(b)
	if err != nil {
		return &Error{dhchap.PayloadWrong, err}
	}
	if n := c.hash.Len(); len(r.Response) != n {
		return fail(dhchap.PayloadWrong, "expected a response of %d bytes, found %d", n, len(r.Response))
	}
	if c.session, err = c.pair.session(r.Public); err != nil {
		return &Error{dhchap.PayloadWrong, err}
	}
	if !hmac.Equal(r.Response, c.response.host(c.secrets.Host, c.names)) {
		return &Error{dhchap.Failed, nil}
	}
	s := dhchap.Success1{Transaction: c.transaction}
	switch {
	case r.Challenge == nil:
		c.succeed()
	case c.secrets.Controller.IsZero():
		return fail(dhchap.Failed, "the host asks for the controller's response, and the controller has no secret")
	case bytes.Equal(r.Challenge, c.response.challenge):
		return fail(dhchap.Failed, "the host's challenge is the controller's")
	default:
		mine := c.response
		mine.challenge, mine.sequence = r.Challenge, r.Sequence
		s.Response = mine.controller(c.secrets.Controller, c.names)
		c.want = dhchap.KindSuccess2
	}
	c.next = s.Append(nil, c.hash)
	return nil
}
