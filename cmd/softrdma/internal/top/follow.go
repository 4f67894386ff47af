package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/control"
)

// An event is what has happened to a queue pair, and whose it is.
type event struct {
	PID     int    `json:"pid"`
	Program string `json:"program"`
	Device  string `json:"device"`
	control.Event
}

// runFollow prints what happens to all devices until the context ends. Devices that programs open later
// are found at each interval.
func (c *command) runFollow(ctx context.Context, out, notes io.Writer) error {
	printing := cli.NewPrinter(out)
	var following sync.WaitGroup
	defer following.Wait()
	var mu sync.Mutex
	known := make(map[place]bool)
	var programs control.Asker
	tick := time.NewTicker(c.interval)
	defer tick.Stop()
	for first := true; ; first = false {
		asking, done := context.WithTimeout(ctx, timeLimit(c.interval))
		answers, _ := programs.Processes(asking) // those that do not answer may do so the next time
		done()
		if first && len(answers) == 0 {
			fmt.Fprintln(notes, "no program of this user has a device; waits for one")
		}
		for _, a := range answers {
			for _, d := range a.Devices {
				at := place{a.Socket.PID, d.Name}
				mu.Lock()
				if known[at] {
					mu.Unlock()
					continue
				}
				known[at] = true
				mu.Unlock()
				following.Go(func() {
					_ = a.Events(ctx, d.Name, func(e control.Event) error { // a device that has closed
						c.printEvent(printing, event{a.Socket.PID, a.Program, d.Name, e})
						return nil
					})
					mu.Lock()
					delete(known, at)
					mu.Unlock()
				})
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// printEvent prints an event, unless the filter leaves it out.
func (c *command) printEvent(out *cli.Printer, e event) {
	if !contains(c.filter, e.Program, strconv.Itoa(e.PID), e.Device, qpn(e.QPN), e.Kind, e.Reason, e.To) {
		return
	}
	if !c.asJSON {
		out.Println(clean(e.line()))
		return
	}
	var b strings.Builder
	_ = json.NewEncoder(&b).Encode(e) // has only numbers and texts
	out.Println(strings.TrimSuffix(b.String(), "\n"))
}

// line returns the event as a line of text.
func (e *event) line() string {
	of := fmt.Sprintf("%s  %s (%d) %s", e.Time.Local().Format("15:04:05.000"), e.Program, e.PID, e.Device)
	if e.Lost > 0 {
		return of + fmt.Sprintf("  %d events lost", e.Lost)
	}
	of += "  QP " + qpn(e.QPN) + "  " + e.Kind + " "
	switch {
	case e.To != "":
		of += e.From + " -> " + e.To
	case e.Status != "":
		of += fmt.Sprintf("work request %#x with %s", e.WRID, e.Status)
	case e.Count > 1:
		of += fmt.Sprintf("%d times", e.Count)
	}
	if e.Reason != "" {
		if !strings.HasSuffix(of, " ") {
			of += ", "
		}
		of += e.Reason + ": " + e.Text
	}
	if e.PeerReason != "" {
		of += "; the peer says " + e.PeerReason + ": " + e.PeerText
	}
	return of
}
