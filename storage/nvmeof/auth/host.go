package auth

import (
	"crypto/hmac"
	"encoding/binary"
	"slices"

	"softrdma/storage/nvmeof/wire/capsule"
	"softrdma/storage/nvmeof/wire/dhchap"
)

// Authenticate authenticates a host on a queue whose connect command has succeeded. run runs a command
// with its data, which the command sends or fills in. With a secret of the controller the controller is
// authenticated, too. An *Error says that a side is not authenticated.
func Authenticate(n Names, s Secrets, run func(cmd capsule.Command, data []byte) error) error {
	send := func(b []byte) error { return run(dhchap.Command(true, len(b)), b) }
	receive := func() ([]byte, error) {
		b := make([]byte, dhchap.MaxLen)
		return b, run(dhchap.Command(false, len(b)), b)
	}
	h := &hostSide{names: n, secrets: s, transaction: binary.LittleEndian.Uint16(random(2))}
	offer := dhchap.Negotiate{Transaction: h.transaction, Hashes: hashes, Groups: groups}
	if err := send(offer.Append(nil)); err != nil {
		return err
	}
	b, err := receive()
	if err != nil {
		return err
	}
	reply, e := h.challenge(b)
	if e != nil {
		return h.refuse(e, send)
	}
	if err := send(reply); err != nil {
		return err
	}
	if b, err = receive(); err != nil {
		return err
	}
	if e := h.success(b); e != nil {
		return h.refuse(e, send)
	}
	if s.Controller.IsZero() {
		return nil
	}
	return send(dhchap.AppendSuccess2(nil, h.transaction))
}

// hostSide is the host's side.
type hostSide struct {
	names       Names
	secrets     Secrets
	transaction uint16
	mine        response // to the host's challenge
	failed      bool     // the controller has said so
}

// refuse tells the controller why it is not accepted.
func (h *hostSide) refuse(e *Error, send func([]byte) error) error {
	if !h.failed {
		_ = send(dhchap.Failure{Transaction: h.transaction, FromHost: true, Why: e.Why}.Append(nil)) // the connection ends anyway
	}
	return e
}

// expect checks which message the controller has sent.
func (h *hostSide) expect(b []byte, want dhchap.Kind) *Error {
	k, transaction, err := dhchap.ParseKind(b)
	switch {
	case err != nil:
		return &Error{dhchap.PayloadWrong, err}
	case k == dhchap.KindFailure1:
		h.failed = true
		f, err := dhchap.ParseFailure(b)
		if err != nil {
			return &Error{dhchap.Failed, err}
		}
		return fail(f.Why, "the controller says so")
	case k != want:
		return fail(dhchap.MessageWrong, "expected message %#04x, found %#04x", uint16(want), uint16(k))
	case transaction != h.transaction:
		return fail(dhchap.MessageWrong, "expected transaction %d, found %d", h.transaction, transaction)
	}
	return nil
}

// challenge returns the reply to a challenge.
func (h *hostSide) challenge(b []byte) (reply []byte, e *Error) {
	if e := h.expect(b, dhchap.KindChallenge); e != nil {
		return nil, e
	}
	c, err := dhchap.ParseChallenge(b)
	switch {
	case err != nil:
		return nil, &Error{dhchap.PayloadWrong, err}
	case !slices.Contains(hashes, c.Hash):
		return nil, fail(dhchap.HashUnusable, "expected one of %v, found %v", hashes, c.Hash)
	case !slices.Contains(groups, c.Group):
		return nil, fail(dhchap.GroupUnusable, "expected one of %v, found %v", groups, c.Group)
	}
	pair := newPair(c.Group)
	session, err := pair.session(c.Public)
	if err != nil {
		return nil, &Error{dhchap.PayloadWrong, err}
	}
	its := response{c.Hash, session, c.Challenge, c.Sequence, h.transaction}
	r := dhchap.Reply{Transaction: h.transaction, Response: its.host(h.secrets.Host, h.names), Public: pair.public}
	if !h.secrets.Controller.IsZero() {
		h.mine = response{c.Hash, session, random(c.Hash.Len()), sequence(), h.transaction}
		r.Challenge, r.Sequence = h.mine.challenge, h.mine.sequence
	}
	return r.Append(nil), nil
}

// success checks the controller's response.
func (h *hostSide) success(b []byte) *Error {
	if e := h.expect(b, dhchap.KindSuccess1); e != nil {
		return e
	}
	s, err := dhchap.ParseSuccess1(b)
	switch {
	case err != nil:
		return &Error{dhchap.PayloadWrong, err}
	case h.secrets.Controller.IsZero():
		return nil
	case !hmac.Equal(s.Response, h.mine.controller(h.secrets.Controller, h.names)):
		return fail(dhchap.Failed, "the controller does not know its secret")
	}
	return nil
}
