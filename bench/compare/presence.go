package compare

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// PresenceName is the name of Presence.
const PresenceName = "presence"

// Presence measures what a device in the program's own process costs a program that does
// not use it: memory, and time at its start. The same program with its device in another
// process is subtracted.
type Presence struct{ Path string } // of the command

// Operations of Presence.
const (
	presenceMemory = "memory"
	presenceStart  = "start"
)

// presenceFigures returns the figures of Presence.
func presenceFigures() []Figure {
	at := func(op string, m Metric) Measure {
		return Measure{Work{Tool: PresenceName, Kind: Idle, Op: op}, m}
	}
	return []Figure{
		{"programs: memory of the library in an idle program", at(presenceMemory, Resident), Measure{}, true, 24, 12},
		{"programs: time that the library adds to a program's start", at(presenceStart, Start), Measure{}, true, 30, 15},
	}
}

// Name returns PresenceName.
func (Presence) Name() string { return PresenceName }

// Check returns an error unless libibverbs's tools are installed and the command contains
// the libraries that exec gives to programs.
func (Presence) Check() error {
	if err := checkEngine(); err != nil {
		return err
	}
	return installed("ibv_asyncwatch", "ibverbs-utils")
}

// Run implements Tool.
func (t Presence) Run(ctx context.Context, p *Path, w Work, d time.Duration) (Result, error) {
	if w.Op == presenceStart {
		extra, err := t.start(ctx, p, d)
		return Result{Start: extra.Seconds()}, err
	}
	with, err := t.resident(ctx, p, "program")
	if err != nil {
		return Result{}, err
	}
	without, err := t.resident(ctx, p, "daemon")
	return Result{Resident: float64(with - without)}, err
}

// resident returns the resident memory of a program that has opened a device and waits
// for its events.
func (t Presence) resident(ctx context.Context, p *Path, engine string) (int, error) {
	// The shell prints its process's number, and becomes the program.
	argv := append(p.exec(t.Path, engine, p.sameHostMode(), server), "sh", "-c", "echo process $$; exec stdbuf -oL ibv_asyncwatch")
	program, said, err := p.startServer(ctx, "async event FD", argv...)
	if err != nil {
		return 0, err
	}
	defer program.stop()
	_, rest, _ := strings.Cut(said, "process ")
	number, _, _ := strings.Cut(rest, "\n")
	status, err := os.ReadFile("/proc/" + number + "/status")
	if err != nil {
		return 0, fmt.Errorf("memory of ibv_asyncwatch: %w", err)
	}
	return parseResident(status)
}

// parseResident returns the bytes of VmRSS in /proc/PID/status.
func parseResident(status []byte) (int, error) {
	_, rest, _ := bytes.Cut(status, []byte("VmRSS:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) != 2 || fields[1] != "kB" {
		return 0, fmt.Errorf("status of a process: expected VmRSS in kB, found %q", line)
	}
	n, err := strconv.Atoi(fields[0])
	return n << 10, err
}

// startCost is an estimate of the duration of one start with each engine.
const startCost = 100 * time.Millisecond

// start returns the median of the differences between the times that a program takes
// with its device in its own process and in another.
func (t Presence) start(ctx context.Context, p *Path, d time.Duration) (time.Duration, error) {
	var differences []float64
	for range max(3, int(d/startCost)) {
		var took [2]time.Duration
		for i, engine := range []string{"program", "daemon"} {
			began := time.Now()
			if _, err := p.runClient(ctx, append(p.exec(t.Path, engine, p.sameHostMode(), client), "ibv_devinfo")...); err != nil {
				return 0, err
			}
			took[i] = time.Since(began)
		}
		differences = append(differences, float64(took[0]-took[1]))
	}
	return time.Duration(median(differences)), nil
}
