package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"softrdma/rdmacm"
	"softrdma/storage/nvmeof/wire/status"
)

// A Path is an address of a subsystem.
type Path struct {
	Addr   string        // "host:port"
	Dialer rdmacm.Dialer // zero: Config.Dialer
}

// A Subsystem is connected by several controllers. Commands for its namespaces take one whose path is
// optimized, in turn, and another one if that fails.
type Subsystem struct {
	controllers []*Controller
}

// Connect connects to a subsystem by all paths. At least one must succeed. Others are tried again, as
// Config says of connections that have ended.
func Connect(ctx context.Context, cfg Config, paths ...Path) (*Subsystem, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, errors.New("expected an address of the subsystem, found none")
	}
	s := &Subsystem{}
	links := make([]*link, len(paths))
	var errs []error
	for i, p := range paths {
		d := p.Dialer
		if d.Device == nil && d.Protocol == 0 {
			d = cfg.Dialer
		}
		c := newController(p.Addr, d, cfg)
		s.controllers = append(s.controllers, c)
		l, err := c.connect(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Addr, err))
			c.last = err
			continue
		}
		links[i] = l
		c.use(l)
	}
	for i, c := range s.controllers {
		c.work.Go(func() { c.run(links[i]) })
	}
	if len(errs) == len(paths) {
		return nil, errors.Join(append(errs, s.Close())...)
	}
	for _, err := range errs {
		cfg.Events(Event{Kind: Failed, Err: err})
	}
	return s, nil
}

// Controllers returns the controllers, in the order of the paths.
func (s *Subsystem) Controllers() []*Controller { return s.controllers }

// Namespace returns a namespace, which the host reaches by every controller.
func (s *Subsystem) Namespace(ctx context.Context, id uint32) (*Namespace, error) {
	return newNamespace(ctx, s.controllers, id)
}

// Namespaces returns the identifiers of the active namespaces.
func (s *Subsystem) Namespaces(ctx context.Context) (ids []uint32, err error) {
	for _, c := range s.controllers {
		if ids, err = c.Namespaces(ctx); err == nil {
			break
		}
	}
	return ids, err
}

// Close closes all controllers. Commands that have not completed fail.
func (s *Subsystem) Close() (err error) {
	for _, c := range s.controllers {
		err = errors.Join(err, c.Close())
	}
	return err
}

// A LostError says that a controller has no connection, and that commands do not wait for one.
type LostError struct {
	Addr  string
	After time.Duration // of attempts to connect again
	Err   error         // why the connection ended, or the last attempt failed
}

// Error returns what has happened.
func (e *LostError) Error() string {
	s := fmt.Sprintf("the path to %s is lost", e.Addr)
	if e.After > 0 {
		s += fmt.Sprintf(", after %v", e.After.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s: %v", s, e.Err)
}

// Unwrap returns the cause, and the status of a lost path.
func (e *LostError) Unwrap() []error {
	return []error{e.Err, &status.Error{Status: status.HostPathError}}
}
