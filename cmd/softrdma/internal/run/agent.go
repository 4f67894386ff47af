package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/launch"
)

// An order is a message to the agent on another host: lines of JSON on its standard input. The
// first contains the job. The end of the input ends the ranks.
type order struct {
	Job    *job   `json:",omitempty"`
	Signal int    `json:",omitempty"`
	Input  []byte `json:",omitempty"` // for rank 0
	EOF    bool   `json:",omitempty"` // end of that input
}

// An event is a message of the agent: lines of JSON on its standard output. The last contains
// the result of all ranks.
type event struct {
	Rank   int
	Stderr bool    `json:",omitempty"`
	Output []byte  `json:",omitempty"`
	Ended  bool    `json:",omitempty"` // the rank has ended successfully
	End    *ending `json:",omitempty"`
}

// inputSize is the size of the pieces in which input travels to rank 0.
const inputSize = 32 << 10

// command makes an agent run a job, and returns the first ending with an error, or that of
// rank 0 and code 0 if all succeeded.
func command(ctx context.Context, j job, in io.WriteCloser, events io.Reader, out *outputs, stdin io.Reader, signals <-chan os.Signal) (*ending, error) {
	var mu sync.Mutex
	encoder := json.NewEncoder(in)
	send := func(o order) error {
		mu.Lock()
		defer mu.Unlock()
		return encoder.Encode(o)
	}
	stop := context.AfterFunc(ctx, func() { _ = in.Close() }) // ends the ranks
	defer stop()
	if err := send(order{Job: &j}); err != nil {
		return nil, err
	}
	if j.First == 0 && stdin != nil {
		go forwardInput(stdin, send) // until the process or its input ends
	}
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case s := <-signals:
				if n, ok := s.(syscall.Signal); ok {
					_ = send(order{Signal: int(n)}) // the agent may have ended
				}
			case <-done:
				return
			}
		}
	}()
	d := json.NewDecoder(events)
	for {
		var e event
		if err := d.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) {
				err = fmt.Errorf("softrdma there has ended: %w", io.ErrUnexpectedEOF)
			}
			return nil, err
		}
		if e.End != nil {
			_ = in.Close() // the agent ends
			return e.End, nil
		}
		if e.Rank < j.First || e.Rank >= j.First+j.Ranks {
			return nil, fmt.Errorf("event of rank %d, expected %d to %d", e.Rank, j.First, j.First+j.Ranks-1)
		}
		if e.Ended {
			out.ended(e.Rank)
			continue
		}
		_, _ = out.writer(e.Rank, e.Stderr).Write(e.Output) // standard output reports its errors
	}
}

// forwardInput sends the input of rank 0.
func forwardInput(stdin io.Reader, send func(order) error) {
	b := make([]byte, inputSize)
	for {
		n, err := stdin.Read(b)
		if n > 0 && send(order{Input: b[:n]}) != nil {
			return
		}
		if err != nil {
			_ = send(order{EOF: true}) // the agent may have ended
			return
		}
	}
}

// serve is the agent.
func serve(ctx context.Context, in io.Reader, w io.Writer) error {
	d := json.NewDecoder(in)
	var first order
	if err := d.Decode(&first); err != nil || first.Job == nil {
		return cli.UsageErrorf("--agent: expected a job on standard input")
	}
	j := first.Job
	if len(j.Program) == 0 || j.Ranks < 1 || j.Ranks > launch.MaxRanks || j.First < 0 || j.First+j.Ranks > j.Size {
		return cli.UsageErrorf("--agent: a job of %d ranks from %d of %d", j.Ranks, j.First, j.Size)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	encoder := json.NewEncoder(w)
	send := func(e event) {
		mu.Lock()
		defer mu.Unlock()
		if encoder.Encode(e) != nil {
			cancel() // the command has gone
		}
	}
	out := &outputs{
		send:  func(rank int, stderr bool, b []byte) { send(event{Rank: rank, Stderr: stderr, Output: b}) },
		ended: func(rank int) { send(event{Rank: rank, Ended: true}) },
	}
	stdin, input := io.Pipe()
	signals := make(chan os.Signal, 8)
	go func() {
		defer cancel()
		defer input.Close()
		obey(d, input, signals)
	}()
	var rank0 io.Reader
	if j.First == 0 {
		f, err := pipeFile(stdin)
		if err != nil {
			return err
		}
		defer f.Close()
		rank0 = f
	}
	end := j.run(ctx, out, rank0, signals)
	if end == nil {
		end = &ending{Rank: j.First}
	}
	out.flush()
	return encoder.Encode(event{End: end})
}

// obey executes the orders that follow the job.
func obey(d *json.Decoder, input *io.PipeWriter, signals chan<- os.Signal) {
	for {
		var o order
		if err := d.Decode(&o); err != nil {
			return
		}
		switch {
		case o.Signal != 0:
			signals <- syscall.Signal(o.Signal)
		case o.EOF:
			_ = input.Close() // does not fail
		default:
			_, _ = input.Write(o.Input) // rank 0 may ignore its input
		}
	}
}

// pipeFile returns a file from which the data of r can be read. A process that gets it may end
// without reading everything.
func pipeFile(r *io.PipeReader) (*os.File, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	go func() {
		_, err := io.Copy(out, r)
		_ = out.Close()
		r.CloseWithError(err)
	}()
	return in, nil
}
