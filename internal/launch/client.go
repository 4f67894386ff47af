package launch

import (
	"bufio"
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// A Client is a rank of an exchange.
type Client struct {
	Address    string // of the server
	Secret     []byte
	Rank, Size int
	Serve      bool          // this rank is the server, too
	Wait       time.Duration // time limit for the server to listen, and for all ranks if this rank is the server
}

// Exchange publishes a value to all ranks and returns all values. It waits until the server
// listens.
func (x *Client) Exchange(ctx context.Context, value []byte) ([][]byte, error) {
	end := time.Now().Add(x.Wait)
	if x.Serve {
		l, err := net.Listen("tcp", x.Address)
		if err != nil {
			return nil, err
		}
		s := Serve(l, x.Secret, x.Size, x.Wait)
		values, err := x.ask(ctx, end, value)
		if s.Err() != nil { // the other ranks get this error, too
			s.handlersIdle()
		}
		if err != nil {
			_ = s.Close()
			return nil, err
		}
		go func() { // let the others receive theirs
			s.handlersIdle()
			_ = s.Close()
		}()
		return values, nil
	}
	for {
		values, err := x.ask(ctx, end, value)
		if o := (*net.OpError)(nil); !errors.As(err, &o) || o.Op != "dial" {
			return values, err
		}
		if !time.Now().Before(end) {
			return nil, fmt.Errorf("exchange: expected softrdma run or rank 0 to listen at %s, found no listener within %v: %w", x.Address, x.Wait, err)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ask dials the server until end, and waits that long for the answer.
func (x *Client) ask(ctx context.Context, end time.Time, value []byte) ([][]byte, error) {
	d := net.Dialer{Deadline: end}
	c, err := d.DialContext(ctx, "tcp", x.Address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	values, err := x.talk(c, value)
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("exchange with %s: %w", x.Address, err)
	}
	return values, nil
}

func (x *Client) talk(c net.Conn, value []byte) ([][]byte, error) {
	_ = c.SetDeadline(time.Now().Add(handshakeTimeout)) // applies to a TCP connection
	r := bufio.NewReader(c)
	var begin challenge
	if err := readLine(r, maxRequest, &begin); err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Time{}) // the server has its own limit
	q := request{Rank: x.Rank, Nonce: NewSecret(), Value: value}
	q.Code = q.code(x.Secret, begin.Nonce)
	if err := json.NewEncoder(c).Encode(q); err != nil {
		return nil, err
	}
	var p reply
	if err := readLine(r, maxReply, &p); err != nil {
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w, or a rank has ended: %w", ErrSecret, err)
		}
		return nil, err
	}
	switch {
	case !hmac.Equal(p.Code, p.code(x.Secret, q.Nonce)):
		return nil, ErrSecret
	case p.Missing != nil:
		return nil, p.Missing
	case len(p.Values) != x.Size:
		return nil, fmt.Errorf("%w: %d values, expected %d", ErrExchange, len(p.Values), x.Size)
	}
	return p.Values, nil
}
