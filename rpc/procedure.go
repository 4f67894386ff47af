package rpc

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// A Procedure is a method of a service. Func, Unary and OneWay make one.
type Procedure struct {
	// Name is the method's name within its service.
	Name string
	// Codec encodes the bodies; nil means Raw. Clients must have the codec of the same name.
	Codec Codec
	// Run is where the handler runs.
	Run Run

	kind    kind
	handler func(context.Context, *Call) error
	full    string // service/method
	slow    atomic.Bool
	quick   atomic.Int32 // short runs in a row while slow
}

// Run is where a handler runs.
type Run uint8

const (
	// RunAuto runs handlers on the goroutine that receives, which is the fastest, until one takes
	// longer than some tens of microseconds. From then on the method's handlers have goroutines
	// of their own, until they are short again. A handler that blocks delays other calls of the
	// device for a few milliseconds at most.
	RunAuto Run = iota
	// RunReceiver always runs handlers on the goroutine that receives. They must not block.
	RunReceiver
	// RunGoroutine always runs handlers on goroutines of their own.
	RunGoroutine
)

// Func returns a method whose handler takes the body of the request and writes that of the answer.
func Func(name string, codec Codec, h func(ctx context.Context, c *Call) error) *Procedure {
	return &Procedure{Name: name, Codec: codec, kind: kindCall, handler: h}
}

// Unary returns a method that turns a value into another one.
func Unary[In, Out any](name string, codec Codec, h func(ctx context.Context, in *In) (*Out, error)) *Procedure {
	return Func(name, codec, func(ctx context.Context, c *Call) error {
		in := new(In)
		if err := c.Decode(in); err != nil {
			return err
		}
		out, err := h(ctx, in)
		if err != nil {
			return err
		}
		return c.Encode(out)
	})
}

// OneWay returns a method without a result, for Method.Send.
func OneWay[In any](name string, codec Codec, h func(ctx context.Context, in *In) error) *Procedure {
	return Func(name, codec, func(ctx context.Context, c *Call) error {
		in := new(In)
		if err := c.Decode(in); err != nil {
			return err
		}
		return h(ctx, in)
	})
}

const (
	longRun   = 50 * time.Microsecond // a handler that takes longer is not short
	shortRuns = 64                    // so many short runs in a row make a method short again
)

// apart reports whether the handler of a call gets a goroutine of its own.
func (p *Procedure) apart() bool {
	return p.Run == RunGoroutine || p.Run == RunAuto && p.slow.Load()
}

// took records how long a handler ran.
func (p *Procedure) took(d time.Duration) {
	switch {
	case p.Run != RunAuto:
	case d > longRun:
		p.slow.Store(true)
		p.quick.Store(0)
	case p.slow.Load() && p.quick.Add(1) >= shortRuns:
		p.slow.Store(false)
	}
}

// call runs the handler, within the program's interceptor if it has one. A panic becomes an error.
func (p *Procedure) call(c *Call) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Error{Internal, fmt.Sprintf("%s panicked: %v", p.full, v)}
		}
	}()
	if f := c.task.owner.port.srv.cfg.Intercept; f != nil && p.full != lookupName {
		return f(c, c, p.handler)
	}
	return p.handler(c, c)
}
