package sampler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"softrdma/internal/control"
	"softrdma/internal/object"
	"softrdma/internal/reason"
)

// A Report is a sample with what has changed since the one before.
type Report struct {
	Time      time.Time       `json:"time"`
	Seconds   float64         `json:"seconds,omitempty"` // since the sample before
	Processes []ProcessReport `json:"processes"`
	Errors    []string        `json:"errors,omitempty"` // of programs and devices that did not answer
}

// A ProcessReport is a program.
type ProcessReport struct {
	PID     int            `json:"pid"`
	Program string         `json:"program"`
	Args    []string       `json:"args"`
	Devices []DeviceReport `json:"devices"`
}

// A DeviceReport is a device.
type DeviceReport struct {
	control.Info
	Retransmissions uint64         `json:"retransmissions"` // decisions to send packets again
	Rates           *DeviceRates   `json:"rates,omitempty"` // nil if the device is new
	Reasons         []ReasonReport `json:"reasons"`         // the most frequent of the last interval first
	QPs             []QPReport     `json:"queue_pairs"`

	Socket  control.Socket `json:"-"` // of the program
	Program string         `json:"-"`
}

// DeviceRates are a second's share of what the device has counted since the sample before.
type DeviceRates struct {
	Sent            float64 `json:"sent_bytes"` // of payload
	Received        float64 `json:"received_bytes"`
	Retransmissions float64 `json:"retransmissions"`
	Reasons         float64 `json:"reasons"` // all together
}

// A ReasonReport is how often a reason was given.
type ReasonReport struct {
	Name  string  `json:"name"`
	Count uint64  `json:"count"`
	Rate  float64 `json:"rate"` // a second
}

// A QPReport is a queue pair.
type QPReport struct {
	object.QP
	Rates *QPRates `json:"rates,omitempty"` // nil if the queue pair is new

	Of       *DeviceReport `json:"-"`
	OwnerPID int           `json:"-"` // of the program that has made it
	Program  string        `json:"-"` // its name
}

// QPRates are a second's share of what the queue pair has counted since the sample before.
type QPRates struct {
	ReceivedBytes float64 `json:"received_bytes"` // payload of the peer's requests, and what READs have brought
	*ConnectionRates
}

// ConnectionRates are those of a reliable connection.
type ConnectionRates struct {
	SentBytes       float64 `json:"sent_bytes"`       // payload that was acknowledged
	SentPackets     float64 `json:"sent_packets"`     // acknowledged, or responses of READs
	ReceivedPackets float64 `json:"received_packets"` // requests of the peer
	Retransmissions float64 `json:"retransmissions"`
}

// Compare reports what a sample shows. before may be nil.
func Compare(before, now *Sample) *Report {
	r := &Report{Time: now.At, Processes: []ProcessReport{}, Errors: unanswered(now.Failed)}
	if before != nil {
		r.Seconds = now.At.Sub(before.At).Seconds()
	}
	own := now.own()
	for _, p := range now.Processes {
		if len(p.Open) == 0 {
			continue // it has only fabrics
		}
		x := ProcessReport{PID: p.Process.PID, Program: p.Program, Args: p.Args, Devices: make([]DeviceReport, len(p.Open))}
		for i, d := range p.Open {
			y := &x.Devices[i]
			y.fill(before.find(p.Socket, d.Name), d)
			y.Socket, y.Program = p.Socket, p.Program
			y.QPs = slices.DeleteFunc(y.QPs, func(q QPReport) bool { return q.PID != x.PID && own[ownQP{q.PID, q.Number}] })
			for j := range y.QPs {
				q := &y.QPs[j]
				q.Of, q.OwnerPID, q.Program = y, cmp.Or(q.PID, x.PID), cmp.Or(d.Owners[q.PID], p.Program)
			}
		}
		r.Processes = append(r.Processes, x)
	}
	return r
}

// An ownQP is a queue pair of a device in the program's own process.
type ownQP struct {
	pid int
	qpn uint32
}

// own returns the queue pairs of which their owner tells itself: a daemon lists those of its programs too.
func (s *Sample) own() map[ownQP]bool {
	all := make(map[ownQP]bool)
	for _, p := range s.Processes {
		for _, d := range p.Open {
			for _, q := range d.QPs {
				if q.PID == p.Process.PID {
					all[ownQP{q.PID, q.Number}] = true
				}
			}
		}
	}
	return all
}

// find returns a device, nil if the sample does not have it.
func (s *Sample) find(socket control.Socket, name string) *Device {
	if s == nil {
		return nil
	}
	for _, p := range s.Processes {
		if p.Socket == socket {
			if i := slices.IndexFunc(p.Open, func(d Device) bool { return d.Name == name }); i >= 0 {
				return &p.Open[i]
			}
		}
	}
	return nil
}

// fill reports a device. before may be nil. A device whose counters have decreased is another one.
func (r *DeviceReport) fill(before *Device, now Device) {
	r.Info, r.Retransmissions, r.Reasons, r.QPs = now.Info, again(now.Counters), []ReasonReport{}, make([]QPReport, len(now.QPs))
	seconds := 0.0
	if before != nil {
		seconds = now.Time.Sub(before.Time).Seconds()
	}
	if seconds <= 0 || now.GUID != before.GUID || now.Sent < before.Sent || now.Received < before.Received {
		before = nil
	}
	known := make(map[uint32]*object.QP)
	sent := 0.0
	if before != nil {
		sent = float64(now.Sent - before.Sent)
		r.Rates = &DeviceRates{Sent: sent / seconds, Received: float64(now.Received-before.Received) / seconds}
		for i := range before.QPs {
			known[before.QPs[i].Number] = &before.QPs[i]
		}
	}
	for name, n := range now.Counters {
		x := ReasonReport{Name: name, Count: n}
		if before != nil {
			x.Rate = float64(n-min(n, before.Counters[name])) / seconds
			r.Rates.Reasons += x.Rate
		}
		r.Reasons = append(r.Reasons, x)
	}
	SortReasons(r.Reasons)
	if before != nil {
		r.Rates.Retransmissions = float64(r.Retransmissions-min(r.Retransmissions, again(before.Counters))) / seconds
	}
	for i, q := range now.QPs {
		r.QPs[i].QP = q
		if b := known[q.Number]; b != nil && q.Received >= b.Received {
			r.QPs[i].Rates = &QPRates{float64(q.Received-b.Received) / seconds, measured(b, &q, seconds, sent)}
		}
	}
}

// SortReasons puts the most frequent of the last interval first.
func SortReasons(all []ReasonReport) {
	slices.SortFunc(all, func(a, b ReasonReport) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
}

// again returns how often a device has decided to send packets again.
func again(counters map[string]uint64) (n uint64) {
	for of := range maps.Values(reason.Retransmissions) {
		for _, r := range of {
			n += counters[r.String()]
		}
	}
	return n
}

const (
	header = 64      // bytes that the headers of a packet count
	psns   = 1 << 24 // packet sequence numbers
)

// measured returns the rates of a connection, of whose device so many bytes were sent in the interval, nil if
// the queue pair has none.
func measured(before, now *object.QP, seconds, sent float64) *ConnectionRates {
	if before.Measured == nil || now.Measured == nil || before.SQPSN != now.SQPSN || before.RQPSN != now.RQPSN {
		return nil // connected again, or no reliable connection
	}
	a, b := before.Measured, now.Measured
	packets := float64(b.Acknowledged - a.Acknowledged)
	return &ConnectionRates{
		SentPackets:     packets / seconds,
		SentBytes:       max(whole(b.Bytes-a.Bytes, min(packets*float64(now.PathMTU+header), sent+packets*header))-packets*header, 0) / seconds,
		ReceivedPackets: float64((b.Expected-a.Expected)%psns) / seconds,
		Retransmissions: float64(b.Retransmitted-a.Retransmitted) / seconds,
	}
}

// whole returns the largest number up to a limit with these lowest 32 bits.
func whole(low uint32, limit float64) float64 {
	n := float64(low)
	if limit > n {
		n += float64(uint64((limit-n)/(1<<32))) * (1 << 32)
	}
	return n
}
