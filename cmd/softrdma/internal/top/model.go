package top

import (
	"slices"
	"strconv"
	"strings"

	"softrdma/internal/sampler"
)

// A model is what the view shows, as a function of samples and keys. It does no I/O and reads no clock.
type model struct {
	width, height int
	plain         bool // no colors and attributes

	last   *sample // with which the next one is compared
	shown  *report
	paused bool

	inDevices bool // the keys are for the table of devices
	devices   position
	qps       position
	only      *place // the device whose queue pairs are shown, nil for all
	byDevice  order
	byQP      order

	filter  string
	typing  bool // the keys are the filter's
	help    bool
	open    *target // the queue pair of which all is shown
	history []string
	failed  string // why there is no history
	scroll  int    // lines above the end of the history
}

// A place names a device of a program.
type place struct {
	pid  int
	name string
}

func (r *deviceReport) place() place { return place{r.Socket.PID, r.Name} }

// A position is the selected row of a table. The selection follows what the row shows, once the user has
// chosen it: until then it is the first row.
type position struct {
	row    int
	chosen bool
	of     place
	qpn    uint32
}

// An order is how a table is sorted.
type order struct {
	column  string
	reverse bool
}

// start returns the model without a sample.
func start(filter string, plain bool) model {
	return model{width: 80, height: 24, plain: plain, filter: filter, byDevice: order{column: "PID"}, byQP: order{column: "TX B/s"}}
}

// sampled adds a sample.
func (m model) sampled(s *sample) model {
	if !m.paused {
		m.shown, m.last = compare(m.last, s), s
	}
	return m.followed().inside()
}

// recorded adds what the flight recorder has of the open queue pair.
func (m model) recorded(of target, lines []string, err error) model {
	if m.open == nil || *m.open != of || m.paused {
		return m
	}
	m.history, m.failed = lines, ""
	if err != nil {
		m.failed = err.Error()
	}
	return m
}

// rows returns the devices and queue pairs that the filter and the chosen device leave, in order.
func (m *model) rows() (devices []*deviceReport, qps []*qpReport) {
	if m.shown == nil {
		return nil, nil
	}
	for i := range m.shown.Processes {
		p := &m.shown.Processes[i]
		for j := range p.Devices {
			d := (*deviceReport)(&p.Devices[j])
			whole, some := d.matches(m.filter), false
			chosen := m.only == nil || *m.only == place{p.PID, d.Name}
			for k := range d.QPs {
				if q := (*qpReport)(&d.QPs[k]); whole || q.matches(m.filter) {
					some = true
					if chosen {
						qps = append(qps, q)
					}
				}
			}
			if whole || some {
				devices = append(devices, d)
			}
		}
	}
	sorted(devices, deviceColumns, m.byDevice.column, m.byDevice.reverse)
	sorted(qps, qpColumns, m.byQP.column, m.byQP.reverse)
	return devices, qps
}

func contains(filter string, texts ...string) bool {
	filter = strings.ToLower(filter)
	return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(strings.ToLower(t), filter) })
}

func (r *deviceReport) matches(filter string) bool {
	return contains(filter, r.Name, r.Address, r.Device, r.Protocol, r.State, r.Program, strconv.Itoa(r.Socket.PID))
}

func (r *qpReport) matches(filter string) bool {
	return contains(filter, qpn(r.Number), r.Type, r.State, r.Peer, r.Program, strconv.Itoa(r.OwnerPID))
}

// filtered returns what a filter leaves of a report.
func (r *report) filtered(filter string) *report {
	left := *r
	left.Processes = []sampler.ProcessReport{}
	for _, p := range r.Processes {
		devices := p.Devices
		p.Devices = nil
		for _, d := range devices {
			if !(*deviceReport)(&d).matches(filter) {
				d.QPs = slices.DeleteFunc(slices.Clone(d.QPs), func(q sampler.QPReport) bool { return !(*qpReport)(&q).matches(filter) })
				if len(d.QPs) == 0 {
					continue
				}
			}
			p.Devices = append(p.Devices, d)
		}
		if len(p.Devices) > 0 {
			left.Processes = append(left.Processes, p)
		}
	}
	return &left
}

// followed moves the selection to where the selected device and queue pair are now.
func (m model) followed() model {
	devices, qps := m.rows()
	if i := slices.IndexFunc(devices, func(d *deviceReport) bool { return d.place() == m.devices.of && m.devices.chosen }); i >= 0 {
		m.devices.row = i
	}
	if i := slices.IndexFunc(qps, func(q *qpReport) bool { return q.owner().place() == m.qps.of && q.Number == m.qps.qpn && m.qps.chosen }); i >= 0 {
		m.qps.row = i
	}
	return m
}

// inside moves the selection into the tables, and notes what is selected.
func (m model) inside() model {
	devices, qps := m.rows()
	m.devices.row = max(min(m.devices.row, len(devices)-1), 0)
	m.qps.row = max(min(m.qps.row, len(qps)-1), 0)
	if len(devices) > 0 {
		m.devices.of = devices[m.devices.row].place()
	}
	if len(qps) > 0 {
		q := qps[m.qps.row]
		m.qps.of, m.qps.qpn = q.owner().place(), q.Number
	}
	return m
}

// A wish is what the model wants from the terminal's loop.
type wish uint8

// The wishes.
const (
	nothing wish = iota
	quit
	look // at the flight recorder of the open queue pair
)

// key acts on a key, by bubbletea's name for it.
func (m model) key(k string) (model, wish) {
	switch {
	case k == "ctrl+c":
		return m, quit
	case m.typing:
		return m.typed(k).followed().inside(), nothing
	case m.help:
		m.help = false
		return m, nothing
	case k == "q":
		return m, quit
	case k == "?":
		m.help = true
		return m, nothing
	case k == "space":
		m.paused = !m.paused
		return m, nothing
	case m.open != nil:
		return m.detailKey(k), nothing
	}
	return m.tableKey(k)
}

// typed adds a key to the filter.
func (m model) typed(k string) model {
	switch {
	case k == "enter":
		m.typing = false
	case k == "esc":
		m.typing, m.filter = false, ""
	case k == "backspace":
		r := []rune(m.filter)
		m.filter = string(r[:max(len(r)-1, 0)])
	case k == "space":
		m.filter += " "
	case len([]rune(k)) == 1:
		m.filter += k
	}
	return m
}

// tableKey acts on a key in the tables.
func (m model) tableKey(k string) (model, wish) {
	at := &m.qps
	if m.inDevices {
		at = &m.devices
	}
	if by, ok := m.movement(k); ok {
		at.row += by
		at.chosen = k != "home"
		return m.inside(), nothing
	}
	switch k {
	case "tab", "shift+tab":
		m.inDevices = !m.inDevices
	case "/":
		m.typing = true
	case "esc":
		m.only, m.filter = nil, ""
	case "s", "S":
		m = m.sort(k == "S")
	case "r":
		if m.inDevices {
			m.byDevice.reverse = !m.byDevice.reverse
		} else {
			m.byQP.reverse = !m.byQP.reverse
		}
	case "enter":
		return m.enter()
	}
	return m.followed().inside(), nothing
}

// movement returns by how many rows a key moves.
func (m *model) movement(k string) (rows int, ok bool) {
	page := max(m.height/2, 1)
	rows, ok = map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page, "home": -1 << 30, "end": 1 << 30,
	}[k]
	return rows, ok
}

// sort sorts by the next column, or by the one before.
func (m model) sort(back bool) model {
	if m.inDevices {
		m.byDevice = order{column: next(deviceColumns, widths(deviceColumns, m.width-mark), m.byDevice.column, back)}
	} else {
		m.byQP = order{column: next(qpColumns, widths(qpColumns, m.width-mark), m.byQP.column, back)}
	}
	return m
}

// next returns the column that follows one in those that the screen has.
func next[R any](list []column[R], widths []int, column string, back bool) string {
	var heads []string
	for i, c := range list {
		if widths[i] >= 0 {
			heads = append(heads, c.head)
		}
	}
	by := 1
	if back {
		by = len(heads) - 1
	}
	return heads[(slices.Index(heads, column)+by+len(heads))%len(heads)]
}

// enter shows the queue pairs of the selected device, or all of the selected queue pair.
func (m model) enter() (model, wish) {
	devices, qps := m.rows()
	switch {
	case m.inDevices && len(devices) > 0:
		d := devices[m.devices.row]
		of := d.place()
		m.only, m.inDevices, m.qps = &of, false, position{}
		m = m.inside()
	case !m.inDevices && len(qps) > 0:
		q := qps[m.qps.row]
		m.open = &target{Socket: q.Of.Socket, Device: q.Of.Name, QPN: q.Number}
		m.history, m.failed, m.scroll = nil, "", 0
		return m, look
	}
	return m, nothing
}

// detailKey acts on a key where all of a queue pair is shown.
func (m model) detailKey(k string) model {
	if by, ok := m.movement(k); ok {
		m.scroll = max(min(m.scroll-by, len(m.history)-1), 0)
		return m
	}
	if k == "esc" || k == "enter" || k == "backspace" || k == "left" {
		m.open, m.history = nil, nil
	}
	return m
}

// opened returns the open queue pair, nil if it has gone.
func (m *model) opened() *qpReport {
	for _, p := range m.shown.Processes {
		for i := range p.Devices {
			d := &p.Devices[i]
			if d.Socket != m.open.Socket || d.Name != m.open.Device {
				continue
			}
			for j := range d.QPs {
				if d.QPs[j].Number == m.open.QPN {
					return (*qpReport)(&d.QPs[j])
				}
			}
		}
	}
	return nil
}
