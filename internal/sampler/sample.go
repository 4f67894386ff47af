// Package sampler asks the programs of this user what their devices do, and compares what they have said
// at two moments. Comparing is a function of two samples: it does no I/O and reads no clock.
package sampler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"softrdma/internal/control"
	"softrdma/internal/object"
)

// A Sample is what the programs of the user have said at one moment.
type Sample struct {
	At        time.Time
	Processes []Process
	Failed    error // of programs and devices that did not answer
}

// A Process is a program with its devices.
type Process struct {
	control.Answer
	Open []Device // those of Answer.Devices that programs use and that were still open, none if it has only fabrics
}

// A Device is a device with its queue pairs.
type Device struct {
	control.Info
	QPs    []object.QP    // none if the device did not say what it has
	Owners map[int]string // names of other programs that own queue pairs, as far as the system tells
}

// A Sampler takes samples. It waits for programs and devices that do not answer only the first time. The zero
// value is ready.
type Sampler struct{ Asker control.Asker }

// Take asks all programs of this user. Programs and devices that do not answer in time are in the error.
func (s *Sampler) Take(ctx context.Context, limit time.Duration) *Sample {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answers, failed := s.Asker.Processes(ctx)
	x := &Sample{At: time.Now(), Processes: make([]Process, len(answers))}
	asked := control.EachAtOnce(answers, func(i int, a control.Answer) (err error) {
		x.Processes[i], err = s.ask(ctx, a)
		return err
	})
	x.Failed = errors.Join(append([]error{failed}, asked...)...)
	return x
}

// ask asks a process for the objects of its devices. A device that closes in the meantime is left out. One
// that does not answer has what the process has said of it, and is in the error.
func (s *Sampler) ask(ctx context.Context, a control.Answer) (p Process, failed error) {
	p.Answer = a
	open := make([]*Device, len(a.Devices)) // nil for those that are left out
	failed = errors.Join(control.EachAtOnce(a.Devices, func(i int, d control.Info) error {
		if d.Unused {
			return nil
		}
		if d.Time.IsZero() { // the program was built before devices said it
			d.Time = time.Now()
		}
		var l object.List
		err := s.Asker.Ask(ctx, a.Socket, http.MethodGet, control.DevicePath(d.Name, "objects"), nil, &l)
		if control.Gone(err) {
			return nil
		}
		open[i] = &Device{d, l.QPs, owners(l.QPs, a.Process.PID)}
		if err != nil {
			return fmt.Errorf("%w (objects of device %s)", err, d.Name)
		}
		return nil
	})...)
	for _, d := range open {
		if d != nil {
			p.Open = append(p.Open, *d)
		}
	}
	return p, failed
}

// owners returns the names of the programs, other than a daemon itself, that have made queue pairs.
func owners(qps []object.QP, own int) map[int]string {
	names := make(map[int]string)
	for _, q := range qps {
		if _, known := names[q.PID]; known || q.PID == 0 || q.PID == own {
			continue
		}
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", q.PID)) // elsewhere it has no name
		names[q.PID] = strings.TrimSpace(string(name))
	}
	return names
}

// Record returns the lines of a device's flight recorder that are of a queue pair.
func Record(ctx context.Context, of Target) (lines []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var b strings.Builder
	if err := of.Socket.Ask(ctx, http.MethodGet, control.DevicePath(of.Device, "record"), nil, &b); err != nil {
		return nil, err
	}
	qp := fmt.Sprintf("QP 0x%06x  ", of.QPN)
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, "  "+qp) {
			lines = append(lines, strings.Replace(strings.TrimRight(line, "\n"), qp, "", 1))
		}
	}
	return lines, nil
}

// A Target is a queue pair of a device of a program.
type Target struct {
	Socket control.Socket
	Device string
	QPN    uint32
}

// unanswered returns the programs that did not answer, a line for each.
func unanswered(err error) (lines []string) {
	if err == nil {
		return nil
	}
	if all, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		for _, e := range all.Unwrap() {
			lines = append(lines, unanswered(e)...)
		}
		return lines
	}
	return []string{err.Error()}
}
