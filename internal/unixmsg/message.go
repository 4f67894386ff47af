package unixmsg

import (
	"encoding/json"
	"errors"
	"fmt"

	"softrdma/internal/reason"
)

// A Kind is the first byte of a message and says what it is. Each protocol has
// kinds of its own, and Refused.
type Kind uint8

// Refused is the kind of a refusal: its body is a Refusal.
const Refused Kind = 6

// A Protocol is what both sides agree on.
type Protocol struct {
	MaxMessage     int                                // length of the longest message
	MaxDescriptors int                                // that come with a message
	Malformed      func(expected, found uint64) error // refuses a message
	Refused        reason.Reason                      // of refusals without a known one
}

// Message makes a message with a body in JSON.
func (p *Protocol) Message(k Kind, body any) ([]byte, error) {
	b, err := json.Marshal(body)
	if err == nil && 1+len(b) > p.MaxMessage {
		err = p.Malformed(uint64(p.MaxMessage), uint64(1+len(b)))
	}
	return append([]byte{byte(k)}, b...), err
}

// Parse reads the body of a message in JSON.
func (p *Protocol) Parse(message []byte, body any) error {
	if err := json.Unmarshal(message[1:], body); err != nil {
		return fmt.Errorf("%w: %w", p.Malformed(uint64(message[0]), uint64(len(message))), err)
	}
	return nil
}

// A Refusal says why a request is refused. It has the reason's name and a text,
// because other versions may have other reasons.
type Refusal struct {
	Reason          string
	Expected, Found uint64
	Text            string
}

// Refusal makes the message that passes an error on.
func (p *Protocol) Refusal(err error) []byte {
	d := reason.Detail{Reason: p.Refused}
	var named *reason.Error
	if errors.As(err, &named) {
		d = named.Detail
	}
	r := Refusal{Reason: d.Reason.String(), Expected: d.Expected, Found: d.Found, Text: err.Error()}
	m, err := p.Message(Refused, &r)
	if err != nil {
		r.Text = d.String()
		m, _ = p.Message(Refused, &r) // has room for one sentence
	}
	return m
}

// ParseRefusal returns a refusal as an error.
func (p *Protocol) ParseRefusal(message []byte) error {
	var r Refusal
	if err := p.Parse(message, &r); err != nil {
		return err
	}
	d := reason.Detail{Reason: p.Refused}
	if known, ok := reason.Named(r.Reason); ok {
		d = reason.Detail{Reason: known, Expected: r.Expected, Found: r.Found}
	}
	return &reason.Error{Detail: d, Text: r.Text}
}
