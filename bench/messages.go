package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"softrdma/bench/compare"
	"softrdma/bench/loop"
	"softrdma/msg"
	"softrdma/verbs"
)

// tagData is the tag of a loop's messages. A message of one byte is the last of a stream.
const tagData = 1

// IDs of active messages. The server answers on the connection of the client's hello.
const (
	activeHello = iota
	activeData
)

// newMessagesCommand returns the hidden command that bench starts as one end of a loop over
// package msg.
func newMessagesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "messages CONFIG", Short: "One end of a loop over package msg, which bench starts", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var c compare.MessagesConfig
			if err := json.Unmarshal([]byte(args[0]), &c); err != nil {
				return fmt.Errorf("configuration of an end: %w", err)
			}
			if c.Bytes < 2 || c.Bytes > 1<<24 {
				return fmt.Errorf("bytes of a message: expected 2 to %d, found %d", 1<<24, c.Bytes)
			}
			dev, err := verbs.Open(c.Device, verbs.Config{SameHost: verbs.SameHost(c.SameHost)})
			if err != nil {
				return err
			}
			defer dev.Close()
			w, err := msg.NewWorker(dev, msg.Config{Progress: msg.ProgressCaller})
			if err != nil {
				return err
			}
			defer w.Close()
			m := &messages{c: c, w: w, ctx: cmd.Context()}
			if c.Peer == "" {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "ready %x\n", w.Address()); err != nil {
					return err
				}
				return m.serve()
			}
			r, err := m.ask()
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(r)
		},
	}
}

// messages is one end of a loop.
type messages struct {
	c   compare.MessagesConfig
	w   *msg.Worker
	to  *msg.Endpoint
	ctx context.Context
}

// await polls until a request has ended, and releases it.
func (m *messages) await(r *msg.Request) (int, error) {
	for i := 1; ; i++ {
		info, ended, err := r.Poll()
		if ended {
			r.Release()
			return info.Length, err
		}
		if i%1024 == 0 && m.ctx.Err() != nil {
			return 0, m.ctx.Err()
		}
	}
}

// buffer returns the buffer of a stream. All messages use one, as those of ucx_perftest do.
func (m *messages) buffer() ([]byte, error) {
	if !m.c.Allocated {
		return make([]byte, m.c.Bytes), nil
	}
	r, err := m.w.Allocate(m.c.Bytes, 0)
	if err != nil {
		return nil, err
	}
	return r.Bytes(), nil
}

// window returns how many messages are in flight in a stream.
func (m *messages) window() int { return max(4, min(64, 8<<20/m.c.Bytes)) }

func (m *messages) serve() error {
	m.w.Handle(activeHello, func(a *msg.Active) { m.to = a.From })
	m.w.Handle(activeData, func(a *msg.Active) { a.From.SendActive(activeData, nil, msg.Buffers{a.Data}, nil).Release() })
	for m.to == nil && m.ctx.Err() == nil {
		m.w.Progress()
	}
	var err error
	switch {
	case m.c.Active: // the handler answers while there is progress
	case m.c.Kind == loop.Ping:
		err = m.echo()
	default:
		err = m.sink()
	}
	for err == nil && m.ctx.Err() == nil { // for the client's last requests
		m.w.Progress()
	}
	if errors.Is(err, msg.ErrPeer) || errors.Is(err, context.Canceled) {
		return nil // the client has ended
	}
	return err
}

func (m *messages) echo() error {
	buf := make([]byte, m.c.Bytes)
	for {
		if _, err := m.await(m.w.Receive(msg.Buffers{buf}, tagData, msg.All)); err != nil {
			return err
		}
		if _, err := m.await(m.to.Send(tagData, msg.Buffers{buf}, nil)); err != nil {
			return err
		}
	}
}

func (m *messages) sink() error {
	b, err := m.buffer()
	if err != nil {
		return err
	}
	var list []*msg.Request
	for range m.window() {
		list = append(list, m.w.Receive(msg.Buffers{b}, tagData, msg.All))
	}
	for i := 0; ; i = (i + 1) % len(list) {
		n, err := m.await(list[i])
		if err != nil || n == 1 {
			return err
		}
		list[i] = m.w.Receive(msg.Buffers{b}, tagData, msg.All)
	}
}

func (m *messages) ask() (r loop.Result, err error) {
	peer, err := hex.DecodeString(m.c.Peer)
	if err != nil {
		return r, err
	}
	if m.to, err = m.w.Connect(m.ctx, peer); err != nil {
		return r, err
	}
	if _, err = m.await(m.to.SendActive(activeHello, nil, nil, nil)); err != nil {
		return r, err
	}
	d := time.Duration(m.c.Seconds * float64(time.Second))
	if m.c.Kind == loop.Ping {
		return m.ping(d)
	}
	b, err := m.buffer()
	if err != nil {
		return r, err
	}
	if err = m.stream(b, d/10, &loop.Result{}); err == nil { // warms up
		err = m.stream(b, d, &r)
	}
	if err == nil {
		_, err = m.await(m.to.Send(tagData, msg.Buffers{make([]byte, 1)}, &msg.SendOptions{Sync: true}))
	}
	return r, err
}

func (m *messages) ping(d time.Duration) (loop.Result, error) {
	trip := m.tagTrip()
	if m.c.Active {
		trip = m.activeTrip()
	}
	trips := make([]float64, 0, 1<<20)
	start := time.Now()
	for now := start; now.Sub(start) < d+d/10 && len(trips) < cap(trips); {
		if err := trip(); err != nil {
			return loop.Result{}, err
		}
		end := time.Now()
		if end.Sub(start) > d/10 { // after a warm-up
			trips = append(trips, float64(end.Sub(now).Nanoseconds())/2e3)
		}
		now = end
	}
	if len(trips) == 0 {
		return loop.Result{}, errors.New("no round trip in the measured time")
	}
	slices.Sort(trips)
	return loop.Result{P50: trips[len(trips)/2], P99: trips[len(trips)*99/100]}, nil
}

// tagTrip returns a function that sends a tagged message and waits for the answer.
func (m *messages) tagTrip() func() error {
	buf, out := make([]byte, m.c.Bytes), make([]byte, m.c.Bytes)
	return func() error {
		r := m.w.Receive(msg.Buffers{buf}, tagData, msg.All)
		if _, err := m.await(m.to.Send(tagData, msg.Buffers{out}, nil)); err != nil {
			return err
		}
		_, err := m.await(r)
		return err
	}
}

// activeTrip does so with active messages.
func (m *messages) activeTrip() func() error {
	out, answers := make([]byte, m.c.Bytes), 0
	m.w.Handle(activeData, func(*msg.Active) { answers++ })
	return func() error {
		before := answers
		if _, err := m.await(m.to.SendActive(activeData, nil, msg.Buffers{out}, nil)); err != nil {
			return err
		}
		for i := 1; answers == before; i++ {
			if m.w.Progress(); i%1024 == 0 {
				if err := errors.Join(m.ctx.Err(), m.to.Err()); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// stream sends for some time, until the last message was matched.
func (m *messages) stream(b []byte, d time.Duration, result *loop.Result) error {
	var list []*msg.Request
	for range m.window() {
		list = append(list, m.to.Send(tagData, msg.Buffers{b}, nil))
	}
	n := len(list)
	start := time.Now()
	for now := start; now.Sub(start) < d; now = time.Now() {
		for i := range list {
			if _, err := m.await(list[i]); err != nil {
				return err
			}
			list[i] = m.to.Send(tagData, msg.Buffers{b}, nil)
		}
		n += len(list)
	}
	for _, r := range list {
		if _, err := m.await(r); err != nil {
			return err
		}
	}
	if _, err := m.await(m.to.Send(tagData, msg.Buffers{b}, &msg.SendOptions{Sync: true})); err != nil {
		return err
	}
	s := time.Since(start).Seconds()
	result.Rate = float64(n+1) / s
	result.Throughput = result.Rate * float64(m.c.Bytes)
	return nil
}
