package control

import (
	"io"
	"time"

	"softrdma/faults"
	"softrdma/internal/object"
	"softrdma/internal/recorder"
)

// Version is that of the routes and their JSON. Fields may be added without another version.
const Version = 1

// A Process is a process that has devices or fabrics.
type Process struct {
	Version int      `json:"version"`
	PID     int      `json:"pid"`
	Program string   `json:"program"`
	Args    []string `json:"args"`
	Devices []Info   `json:"devices"`
	Fabrics []string `json:"fabrics"` // names
}

// An Info describes a device.
type Info struct {
	Name     string            `json:"name"` // unique in the process
	Protocol string            `json:"protocol"`
	Address  string            `json:"address"`
	Device   string            `json:"interface"`
	State    string            `json:"state"` // of the port
	MTU      int               `json:"mtu"`   // active, bytes
	GUID     string            `json:"guid"`
	Objects  object.Counts     `json:"objects"`
	Sent     uint64            `json:"sent_bytes"` // of payload
	Received uint64            `json:"received_bytes"`
	Counters map[string]uint64 `json:"counters"` // reasons that were given, and how often
	Time     time.Time         `json:"time"`     // when the bytes and the counters were read

	// Unused is set for the device of a server that one program has started for itself, as softrdma exec,
	// while that program has its devices in its own process, or none. Tools leave it out.
	Unused bool `json:"unused,omitempty"`
}

// A Device is what a process answers for. Its methods may be called from any goroutine, also while the
// device closes and after that.
type Device interface {
	Info() Info
	Objects() object.List
	Faults() *faults.Injector
	WriteRecord(w io.Writer) error
	WriteRecordCapture(w io.Writer) error

	// Sample returns what the device measures, which it does from the first call until some minutes after
	// the last.
	Sample() object.Sample

	// Follow returns what happens to the device's queue pairs from now on. One goroutine uses it.
	Follow() Follower
}

// A Follower reads the flight recorder: the records that are not of packets since the last call, how many
// of them are lost, and the time of the clock by which they are.
type Follower interface {
	Next() (all []recorder.Record, lost uint64, now time.Duration)
}

// A Rule is a rule of faults that a device has, and how often it has hit.
type Rule struct {
	faults.Rule
	Hits uint64 `json:"hits"`
}

// A Faults is the rules of a device and their first hits, as lines.
type Faults struct {
	Device string   `json:"device"`
	Seed   uint64   `json:"seed"`
	Rules  []Rule   `json:"rules"`
	Hits   []string `json:"hits"`
}
