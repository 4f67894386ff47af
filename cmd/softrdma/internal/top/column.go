package top

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"softrdma/internal/sampler"
)

// A column is a column of a table of R.
type column[R any] struct {
	head     string
	least    int // columns of the screen
	most     int // as far as there is room
	right    bool
	dispense int                // those with the highest numbers are left out of narrow screens first; 0 stays
	cell     func(r *R) string  // what it shows
	value    func(r *R) float64 // what it sorts by, the largest first; nil for text
}

var deviceColumns = []column[deviceReport]{
	{head: "DEVICE", least: 13, most: 30, cell: func(r *deviceReport) string { return r.Name }},
	{head: "PROGRAM", least: 10, most: 20, cell: func(r *deviceReport) string { return r.Program }},
	{head: "PID", least: 7, right: true,
		cell:  func(r *deviceReport) string { return strconv.Itoa(r.Socket.PID) },
		value: func(r *deviceReport) float64 { return -float64(r.Socket.PID) }},
	{head: "PROTOCOL", least: 10, dispense: 2, cell: func(r *deviceReport) string { return r.Protocol }},
	{head: "PORT", least: 6, cell: func(r *deviceReport) string { return r.State }},
	{head: "QPS", least: 5, right: true,
		cell:  func(r *deviceReport) string { return strconv.Itoa(len(r.QPs)) },
		value: func(r *deviceReport) float64 { return float64(len(r.QPs)) }},
	{head: "TX B/s", least: 6, right: true,
		cell:  func(r *deviceReport) string { return rate(r.Rates != nil, r.sent()) },
		value: func(r *deviceReport) float64 { return r.sent() }},
	{head: "RX B/s", least: 6, right: true,
		cell:  func(r *deviceReport) string { return rate(r.Rates != nil, r.received()) },
		value: func(r *deviceReport) float64 { return r.received() }},
	{head: "RETR/s", least: 6, right: true,
		cell:  func(r *deviceReport) string { return rate(r.Rates != nil, r.retransmissions()) },
		value: (*deviceReport).retransmissions},
	{head: "REASONS/s", least: 9, right: true, dispense: 1,
		cell:  func(r *deviceReport) string { return rate(r.Rates != nil, r.reasons()) },
		value: (*deviceReport).reasons},
	{head: "REASON", least: 16, most: 40, dispense: 3, cell: (*deviceReport).reason},
}

var qpColumns = []column[qpReport]{
	{head: "QPN", least: 8, cell: func(r *qpReport) string { return qpn(r.Number) }},
	{head: "PROGRAM", least: 10, most: 16, cell: func(r *qpReport) string { return r.Program }},
	{head: "PID", least: 7, right: true, dispense: 2,
		cell:  func(r *qpReport) string { return strconv.Itoa(r.OwnerPID) },
		value: func(r *qpReport) float64 { return -float64(r.OwnerPID) }},
	{head: "DEVICE", least: 13, most: 24, dispense: 4, cell: func(r *qpReport) string { return r.Of.Name }},
	{head: "TYPE", least: 4, most: 7, cell: func(r *qpReport) string { return r.Type }},
	{head: "STATE", least: 5, cell: func(r *qpReport) string { return r.State }},
	{head: "PEER", least: 12, most: 26, cell: (*qpReport).peer},
	{head: "TX B/s", least: 6, right: true,
		cell:  func(r *qpReport) string { return rate(r.connected(), r.rates().SentBytes) },
		value: func(r *qpReport) float64 { return r.rates().SentBytes }},
	{head: "TX p/s", least: 6, right: true, dispense: 3,
		cell:  func(r *qpReport) string { return rate(r.connected(), r.rates().SentPackets) },
		value: func(r *qpReport) float64 { return r.rates().SentPackets }},
	{head: "RX B/s", least: 6, right: true,
		cell:  func(r *qpReport) string { return rate(r.Rates != nil, r.received()) },
		value: (*qpReport).received},
	{head: "RX p/s", least: 6, right: true, dispense: 3,
		cell:  func(r *qpReport) string { return rate(r.connected(), r.rates().ReceivedPackets) },
		value: func(r *qpReport) float64 { return r.rates().ReceivedPackets }},
	{head: "RTT", least: 6, right: true,
		cell:  func(r *qpReport) string { return r.trip() },
		value: func(r *qpReport) float64 { return r.measured().roundTrip }},
	{head: "WINDOW", least: 6, right: true,
		cell:  func(r *qpReport) string { return r.window() },
		value: func(r *qpReport) float64 { return r.measured().window }},
	{head: "RETR", least: 5, right: true,
		cell:  func(r *qpReport) string { return r.again() },
		value: func(r *qpReport) float64 { return r.measured().again }},
}

// widths returns the width of each column in a table of so many columns of the screen: -1 if it is
// left out. They depend on the screen alone, so that the table does not move while values change.
func widths[R any](list []column[R], screen int) []int {
	all := make([]int, len(list))
	left := screen + 1
	for i, c := range list {
		all[i] = c.least
		left -= c.least + 1
	}
	for left < 0 {
		drop := 0
		for i, c := range list {
			if all[i] >= 0 && c.dispense > list[drop].dispense || all[drop] < 0 {
				drop = i
			}
		}
		if list[drop].dispense == 0 {
			break // narrower than we support
		}
		left += all[drop] + 1
		all[drop] = -1
	}
	for more := true; more && left > 0; {
		more = false
		for i, c := range list {
			if all[i] >= 0 && all[i] < c.most && left > 0 {
				all[i]++
				left--
				more = true
			}
		}
	}
	return all
}

// line returns a row, or the head of the table if r is nil.
func line[R any](list []column[R], widths []int, r *R) string {
	var cells []string
	for i, c := range list {
		if widths[i] < 0 {
			continue
		}
		text := c.head
		if r != nil {
			text = c.cell(r)
		}
		cells = append(cells, fit(text, widths[i], c.right))
	}
	return strings.Join(cells, " ")
}

// sorted sorts rows by a column, those that are equal by the columns of text.
func sorted[R any](rows []*R, list []column[R], by string, reverse bool) {
	slices.SortStableFunc(rows, func(a, b *R) int {
		order := 0
		for _, c := range list {
			if c.head != by {
				continue
			}
			if order = strings.Compare(c.cell(a), c.cell(b)); c.value != nil {
				order = cmp.Compare(c.value(b), c.value(a))
			}
		}
		if reverse {
			order = -order
		}
		return order
	})
}

// The figures of a row, 0 if it has none.

func (r *deviceReport) rates() sampler.DeviceRates {
	if r.Rates == nil {
		return sampler.DeviceRates{}
	}
	return *r.Rates
}

func (r *deviceReport) sent() float64            { return r.rates().Sent }
func (r *deviceReport) received() float64        { return r.rates().Received }
func (r *deviceReport) retransmissions() float64 { return r.rates().Retransmissions }
func (r *deviceReport) reasons() float64         { return r.rates().Reasons }

// reason returns the reason that was given most often in the last interval, if any was.
func (r *deviceReport) reason() string {
	if len(r.Reasons) == 0 || r.Reasons[0].Rate == 0 {
		return ""
	}
	return r.Reasons[0].Name
}

func (r *qpReport) received() float64 {
	if r.Rates == nil {
		return 0
	}
	return r.Rates.ReceivedBytes
}

// connected reports whether the queue pair has the rates of a reliable connection.
func (r *qpReport) connected() bool { return r.Rates != nil && r.Rates.ConnectionRates != nil }

func (r *qpReport) rates() sampler.ConnectionRates {
	if !r.connected() {
		return sampler.ConnectionRates{}
	}
	return *r.Rates.ConnectionRates
}

// figures are measurements as numbers to sort by.
type figures struct{ roundTrip, window, again float64 }

func (r *qpReport) measured() figures {
	m := r.Measured
	if m == nil {
		return figures{-1, -1, -1}
	}
	return figures{float64(m.RoundTrip), float64(m.Window), float64(m.Retransmitted)}
}

// peer returns the peer's address without the port that is usual.
func (r *qpReport) peer() string { return strings.TrimSuffix(r.Peer, ":4791") }

func (r *qpReport) trip() string {
	if r.Measured == nil {
		return none
	}
	return trip(r.Measured.RoundTrip)
}

// window returns the bytes that may be in flight, or why nothing is sent.
func (r *qpReport) window() string {
	switch m := r.Measured; {
	case m == nil || m.Lossless:
		return none
	case m.RNRWait:
		return "RNR"
	default:
		return size(m.Window)
	}
}

func (r *qpReport) again() string {
	if r.Measured == nil {
		return none
	}
	return total(uint64(r.Measured.Retransmitted))
}

// rate formats a number of things a second, if it is known.
func rate(known bool, v float64) string {
	if !known {
		return none
	}
	return count(v)
}
