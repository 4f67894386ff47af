package top

import (
	"fmt"
	"slices"
	"strings"

	"softrdma/cmd/softrdma/internal/cli"
	"softrdma/internal/sampler"
)

// mark is the number of columns before a row, where the selected one has a mark.
const mark = 2

// A style is how a line looks where the terminal has attributes. Nothing is said by the style alone.
type style uint8

const (
	plain style = iota
	head
	selected
	faint
	alarm
)

// sequences are the standard's (ECMA-48 8.3.117).
var sequences = [...]string{plain: "", head: "\x1b[1m", selected: "\x1b[7m", faint: "\x1b[2m", alarm: "\x1b[31m"}

// A screen is the lines of the view.
type screen struct {
	width int
	lines []string
	plain bool
}

func (s *screen) add(as style, text string) {
	text = fit(text, s.width, false)
	if as == plain || s.plain {
		s.lines = append(s.lines, strings.TrimRight(text, " "))
		return
	}
	s.lines = append(s.lines, sequences[as]+text+"\x1b[m")
}

// fill adds empty lines until there are n.
func (s *screen) fill(n int) {
	for len(s.lines) < n {
		s.lines = append(s.lines, "")
	}
}

// view returns the screen's lines.
func (m model) view() []string {
	s := &screen{width: m.width, plain: m.plain}
	switch {
	case m.help:
		m.addHelp(s)
	case m.shown == nil:
		s.add(plain, "softrdma top asks the programs of this user ...")
	case m.open != nil:
		m.addDetail(s)
	default:
		m.addTables(s)
	}
	if len(s.lines) > m.height {
		s.lines = s.lines[:m.height]
	}
	return s.lines
}

// addTitle adds the first two lines.
func (m *model) addTitle(s *screen) {
	n, qps, sent, received := 0, 0, 0.0, 0.0
	for _, p := range m.shown.Processes {
		for i := range p.Devices {
			d := (*deviceReport)(&p.Devices[i])
			n, qps, sent, received = n+1, qps+len(d.QPs), sent+d.sent(), received+d.received()
		}
	}
	left := fmt.Sprintf("softrdma top  %s, %s, %s  TX %s  RX %s", cli.Plural(len(m.shown.Processes), "program"), cli.Plural(n, "device"),
		cli.Plural(qps, "QP"), bytesRate(sent), bytesRate(received))
	at := m.shown.Time.Format("15:04:05")
	if m.paused {
		at = "paused " + at
	}
	s.add(head, fit(left, max(m.width-len(at)-1, 0), false)+" "+at)
	second := ""
	switch {
	case m.typing:
		second = "filter: " + m.filter + "_"
	case m.filter != "":
		second = "filter: " + m.filter
	}
	if m.only != nil {
		second = strings.TrimLeft(second+"  queue pairs of "+m.only.name+fmt.Sprintf(" (%d)", m.only.pid), " ")
	}
	for _, e := range m.shown.Errors {
		second = strings.TrimLeft(second+"  "+e, " ")
	}
	if len(m.shown.Errors) > 0 {
		s.add(alarm, second)
	} else {
		s.add(faint, second)
	}
}

// bytesRate formats a rate of bytes.
func bytesRate(v float64) string {
	text := count(v)
	if unit := strings.TrimLeft(text, "0123456789."); unit != "" {
		return strings.TrimSuffix(text, unit) + " " + unit + "B/s"
	}
	return text + " B/s"
}

// addTables adds the tables of devices and queue pairs.
func (m *model) addTables(s *screen) {
	m.addTitle(s)
	if len(m.shown.Processes) == 0 {
		m.addEmpty(s)
		return
	}
	devices, qps := m.rows()
	rooms := max(m.height-len(s.lines)-5, 2) // rows of both tables
	top := min(len(devices), max(rooms/3, rooms-max(len(qps), 1)))
	addTable(s, deviceColumns, devices, m.devices.row, max(top, 1), m.inDevices)
	s.add(plain, "")
	addTable(s, qpColumns, qps, m.qps.row, max(rooms-max(top, 1), 1), !m.inDevices)
	s.fill(m.height - 2)
	s.add(plain, m.reasons())
	order, table := m.byQP, "QPs"
	if m.inDevices {
		order, table = m.byDevice, "devices"
	}
	direction := ""
	if order.reverse {
		direction = ", reversed"
	}
	s.add(faint, fmt.Sprintf("tab table  s sort  / filter  enter open  ? help  q quit   %s by %s%s", table, order.column, direction))
}

// addTable adds a table with at most limit rows, of which one is the selected one.
func addTable[R any](s *screen, list []column[R], rows []*R, at, limit int, focused bool) {
	w := widths(list, s.width-mark)
	s.add(head, "  "+line(list, w, nil))
	first := max(min(at-limit/2, len(rows)-limit), 0)
	for i := first; i < min(first+limit, len(rows)); i++ {
		text := line(list, w, rows[i])
		switch {
		case i == at && focused:
			s.add(selected, "> "+text)
		default:
			s.add(plain, "  "+text)
		}
	}
	if len(rows) == 0 {
		s.add(faint, "  none")
	}
}

// reasons returns a line with the reasons that the devices have given most often in the last interval,
// or since they were opened if there were none in it.
func (m *model) reasons() string {
	rates, counts := make(map[string]float64), make(map[string]uint64)
	for _, p := range m.shown.Processes {
		for _, d := range p.Devices {
			for _, r := range d.Reasons {
				rates[r.Name] += r.Rate
				counts[r.Name] += r.Count
			}
		}
	}
	var all []sampler.ReasonReport
	for name, n := range counts {
		all = append(all, sampler.ReasonReport{Name: name, Count: n, Rate: rates[name]})
	}
	sampler.SortReasons(all)
	var parts []string
	for _, r := range all[:min(len(all), 6)] {
		text := fmt.Sprintf("%s %s", r.Name, total(r.Count))
		if r.Rate > 0 {
			text += fmt.Sprintf(" (%s/s)", count(r.Rate))
		}
		if parts != nil && m.width > 0 && len(strings.Join(parts, ", "))+len(text) > m.width-len("reasons: , ") {
			break
		}
		parts = append(parts, text)
	}
	if parts == nil {
		return "no refusals"
	}
	return "reasons: " + strings.Join(parts, ", ")
}

// addEmpty says what to run.
func (m *model) addEmpty(s *screen) {
	for _, text := range strings.Split(emptyText, "\n") {
		s.add(plain, text)
	}
	s.fill(m.height - 1)
	s.add(faint, "? help  q quit")
}

// addHelp adds the list of keys.
func (m *model) addHelp(s *screen) {
	s.add(head, "softrdma top: keys")
	for _, text := range strings.Split(keysText, "\n") {
		s.add(plain, text)
	}
	s.fill(m.height - 1)
	s.add(faint, "any key: back")
}

const keysText = `
  up, down, j, k       move; also page up, page down, home, end
  tab                  the other table
  enter                queue pairs: all of one; devices: the queue pairs of one
  esc                  back; all devices, no filter
  s, S                 sort by the next column, by the one before
  r                    reverse the order
  /                    filter by program, PID, device, QPN, type, state, peer
  space                pause
  q                    quit

  TX B/s, RX B/s       payload; TX of queue pairs is what was acknowledged
  TX p/s, RX p/s       packets acknowledged, requests taken, a second
  RETR, RETR/s         decisions to send packets again
  RTT, WINDOW          latest round trip; bytes that may be in flight, RNR while
                       the peer has no receive, - where nothing can be lost
  REASONS/s            all reasons together: softrdma explain NAME`

// emptyText is shown while no program has a device.
const emptyText = `
No program of this user has an RDMA device. In two other terminals, for example:

    softrdma rping -s -a 127.0.0.1
    softrdma rping -c -a 127.0.0.1

or "softrdma demo", or a program of your own below "softrdma exec --".`

// tail returns the last of lines, some above the end.
func tail(lines []string, above, limit int) []string {
	end := max(len(lines)-above, min(limit, len(lines)))
	return slices.Clone(lines[max(end-limit, 0):end])
}
