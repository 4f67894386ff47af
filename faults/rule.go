// Package faults decides which packets, calls and completions of a device go wrong, and how. Programs give
// rules to a device (verbs.Config.Faults, Device.Faults); package faults/file reads them from YAML.
//
//	rules := &faults.Rules{Seed: 7, Rules: []faults.Rule{{
//		Name:   "one packet in a hundred is lost",
//		Select: faults.Selector{Direction: faults.Sent, Service: []string{"rc"}, Probability: 0.01},
//		Action: faults.Drop,
//	}}}
//
// Each rule has a random stream of its own, which the seed, the device's name and the rule's position
// decide. It advances once for each match, so that the same rules, seed and traffic give the same hits,
// and other rules change nothing.
//
// The package decides only: it does no I/O and reads no clock. The device does what it says.
package faults

import (
	"fmt"
	"time"
)

// Rules are what a file of rules holds.
type Rules struct {
	Seed  uint64 `json:"seed,omitempty" doc:"decides what is random: the same seed, rules and traffic give the same hits"`
	Rules []Rule `json:"rules" doc:"each applies by itself, whatever other rules do"`
}

// A Rule is what goes wrong, and when. Which parameters an action needs is in its comment. Others must be
// zero.
type Rule struct {
	Name   string   `json:"name,omitempty" doc:"what hits are listed under"`
	Select Selector `json:"select,omitzero" doc:"what the rule applies to; without it, everything that the action is for"`
	Action Action   `json:"action" doc:"what goes wrong"`

	Time   Duration `json:"time,omitempty" doc:"of delay, stall, slow-memory, withhold, delay-command and lose-path; for answer with rnr, what the peer is told to wait"`
	Jitter Duration `json:"jitter,omitempty" doc:"of delay: up to so much more, at random"`
	Behind int      `json:"behind,omitempty" doc:"of reorder: behind so many later packets; 1 without it"`
	Part   string   `json:"part,omitempty" doc:"of corrupt: payload (without it) or header"`
	ICRC   string   `json:"icrc,omitempty" doc:"of corrupt: wrong (without it: the packet is dropped) or right (it is taken)"`
	Bytes  []int    `json:"bytes,omitempty" doc:"of corrupt: which bytes of the part, from 0; one at random without it"`
	Rate   int64    `json:"rate,omitempty" doc:"of rate: bytes a second"`
	Queue  int64    `json:"queue,omitempty" doc:"of rate: bytes that may wait before packets are lost; 262144 without it"`
	Above  int      `json:"above,omitempty" doc:"of black-hole: packets with more bytes of payload are lost"`
	Answer string   `json:"answer,omitempty" doc:"of answer: rnr or the name of a NAK"`
	Status string   `json:"status,omitempty" doc:"of complete: the status"`
	Event  string   `json:"event,omitempty" doc:"of event: the asynchronous event"`
	Errno  string   `json:"errno,omitempty" doc:"of fail: the error number's name"`
	Reason uint16   `json:"reason,omitempty" doc:"of reject: the reason's number; 28 (the consumer rejects) without it"`

	NVMeStatus uint16 `json:"nvme_status,omitempty" doc:"of fail-command: the number of the status, type and code, as 0x281; that of an unrecovered read or a write fault without it"`
}

// An Action is what goes wrong.
type Action string

// The actions.
const (
	// Of packets.
	Drop      Action = "drop"
	Delay     Action = "delay" // Time, Jitter
	Duplicate Action = "duplicate"
	Reorder   Action = "reorder"    // Behind
	Corrupt   Action = "corrupt"    // Part, ICRC, Bytes
	Mark      Action = "mark"       // with ECN's Congestion Experienced
	Rate      Action = "rate"       // Rate, Queue
	BlackHole Action = "black-hole" // Above
	EndStream Action = "end-stream" // of iWARP

	// Of responders, for received requests.
	Answer     Action = "answer"      // Answer, and Time for rnr: the request is refused at its first packet, or where it takes a receive
	Stall      Action = "stall"       // Time: nothing of the queue pair is received
	SlowMemory Action = "slow-memory" // Time: before a READ is answered or a WRITE is placed

	// Of objects.
	Complete Action = "complete" // Status
	Withhold Action = "withhold" // Time: completions and their events come late
	Event    Action = "event"    // Event
	PortDown Action = "port-down"
	PortUp   Action = "port-up"
	Fail     Action = "fail"   // Errno: of a verbs call
	Reject   Action = "reject" // Reason: of a connection request
)

// The directions.
const (
	Sent     = "sent"
	Received = "received"
)

// A Selector says what a rule applies to. A field's zero value selects everything. All fields that are set
// must agree.
type Selector struct {
	Device      string   `json:"device,omitempty" doc:"name of the device"`
	Peer        string   `json:"peer,omitempty" doc:"address of the peer"`
	QP          uint32   `json:"qp,omitempty" doc:"number of the device's own queue pair"`
	Service     []string `json:"service,omitempty" doc:"services"`
	Opcode      []string `json:"opcode,omitempty" doc:"opcodes or families of them, of any of these"`
	Direction   string   `json:"direction,omitempty" doc:"sent or received"`
	PSN         []uint32 `json:"psn,omitempty" doc:"packet sequence numbers"`
	MinSize     int      `json:"min_size,omitempty" doc:"least bytes of payload"`
	MaxSize     int      `json:"max_size,omitempty" doc:"most bytes of payload"`
	Message     []string `json:"message,omitempty" doc:"messages of the connection manager"`
	Call        []string `json:"call,omitempty" doc:"calls, as libibverbs names them"`
	Completion  []string `json:"completion,omitempty" doc:"opcodes of completions: as ibv_wc_opcode, in lower case and without IBV_WC_"`
	Status      []string `json:"status,omitempty" doc:"statuses of completions"`
	Subsystem   string   `json:"subsystem,omitempty" doc:"qualified name of a subsystem of NVMe"`
	Namespace   uint32   `json:"namespace,omitempty" doc:"number of a namespace of NVMe"`
	Command     []string `json:"command,omitempty" doc:"commands of NVMe"`
	LBA         string   `json:"lba,omitempty" doc:"blocks, as 100 or 100-199: commands that name at least one of them"`
	Nth         uint64   `json:"nth,omitempty" doc:"only this match, from 1"`
	Every       uint64   `json:"every,omitempty" doc:"only each so-manieth match"`
	Probability float64  `json:"probability,omitempty" doc:"of a match to be hit, above 0 and up to 1"`
	From        Duration `json:"from,omitempty" doc:"not earlier than so long after the rules began"`
	Until       Duration `json:"until,omitempty" doc:"not later than so long after the rules began"`
	Count       uint64   `json:"count,omitempty" doc:"at most so many hits"`
}

// A Duration is a time with Go's text form, as 20ms.
type Duration time.Duration

// String returns the text form.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("expected a time with its unit, as 20ms: %w", err)
	}
	*d = Duration(v)
	return nil
}
