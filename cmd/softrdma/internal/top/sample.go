package top

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"softrdma/internal/control"
	"softrdma/internal/object"
)

// A sample is what the programs of the user have said at one moment.
type sample struct {
	at        time.Time
	processes []process
	failed    error
}

// A process is a program with its devices.
type process struct {
	control.Answer
	devices []device // those of Answer.Devices that were still open
}

// A device is a device with its queue pairs.
type device struct {
	control.Info
	qps    []object.QP
	owners map[int]string // names of other programs that own queue pairs, as far as the system tells
}

// take asks all programs of this user. Programs that do not answer in time are in the error.
func take(ctx context.Context, limit time.Duration) *sample {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answers, failed := control.Processes(ctx)
	s := &sample{at: time.Now(), processes: make([]process, len(answers)), failed: failed}
	var asking sync.WaitGroup
	for i, a := range answers {
		asking.Go(func() { s.processes[i] = ask(ctx, a) })
	}
	asking.Wait()
	s.processes = slices.DeleteFunc(s.processes, func(p process) bool { return len(p.devices) == 0 })
	return s
}

// ask asks a process for the objects of its devices. A device that closes in the meantime is left out.
func ask(ctx context.Context, a control.Answer) process {
	p := process{Answer: a}
	for _, d := range a.Devices {
		if d.Time.IsZero() { // the program was built before devices said it
			d.Time = time.Now()
		}
		var l object.List
		if a.Ask(ctx, http.MethodGet, path(d.Name, "objects"), nil, &l) == nil {
			p.devices = append(p.devices, device{d, l.QPs, owners(l.QPs, a.Process.PID)})
		}
	}
	return p
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

func path(device, what string) string { return "/v1/devices/" + url.PathEscape(device) + "/" + what }

// record returns the lines of a device's flight recorder that are of a queue pair.
func record(ctx context.Context, of target) (lines []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var b strings.Builder
	if err := of.socket.Ask(ctx, http.MethodGet, path(of.device, "record"), nil, &b); err != nil {
		return nil, err
	}
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, "  QP "+qpn(of.qpn)+"  ") {
			lines = append(lines, strings.Replace(strings.TrimRight(line, "\n"), "QP "+qpn(of.qpn)+"  ", "", 1))
		}
	}
	return lines, nil
}

// A target is a queue pair of which the view shows all.
type target struct {
	socket control.Socket
	device string
	qpn    uint32
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
