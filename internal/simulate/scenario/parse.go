package scenario

import (
	"fmt"
	"slices"
	"time"

	"softrdma/internal/congestion"
	"softrdma/internal/strictyaml"
	"softrdma/internal/topology"
)

// Parse reads a scenario. Errors begin with the name, line and column.
func Parse(name string, b []byte) (*Scenario, error) {
	s := &Scenario{}
	f, err := strictyaml.Parse(name, "a scenario", b, s, nil)
	if err != nil {
		return nil, err
	}
	if err := s.check(f); err != nil {
		return nil, err
	}
	for i := range s.Variants { // what a variant does not name is that of the scenario
		v := &s.Variants[i]
		v.Links, v.Switch, v.Sender = s.Links, s.Switch, s.Sender
		at := fmt.Sprintf("variants[%d].", i)
		for part, into := range map[string]any{"links": &v.Links, "switch": &v.Switch, "sender": &v.Sender} {
			if err := f.Decode(at+part, into); err != nil {
				return nil, err
			}
		}
		if err := checkParts(f, at, &v.Switch, &v.Sender); err != nil {
			return nil, err
		}
	}
	if len(s.Variants) == 0 {
		s.Variants = []Variant{{Name: s.Sender.name(), Links: s.Links, Switch: s.Switch, Sender: s.Sender}}
	}
	return s, nil
}

// name returns what tells a sender from others.
func (s *Sender) name() string {
	recovery := s.Recovery
	if recovery == "" {
		recovery = Selective
	}
	return s.Control.String() + ", " + string(recovery)
}

// Bounds of a scenario.
const (
	maxTraffic  = 64
	maxVariants = 32
	maxRate     = 100_000 // samples, repetitions
	maxMessages = 1_000_000
	treePart    = 64 << 10

	// MaxTotal bounds the messages of a traffic, which are kept for the result.
	MaxTotal = 100_000_000
)

// check checks a scenario, and fills in what it leaves out.
func (s *Scenario) check(f *strictyaml.File) error {
	if s.Topology == "" {
		return f.ErrorAt("", "expected a topology, such as star:16, found none")
	}
	fabric, err := topology.Generate(s.Topology)
	if err != nil {
		return f.ErrorAt("topology", "%v", err)
	}
	hosts := Hosts(fabric)
	switch {
	case s.Duration == 0:
		return f.ErrorAt("duration", "duration: expected the time of the traffic, such as 10ms, found none")
	case s.Limit != 0 && s.Limit < s.Duration:
		return f.ErrorAt("limit", "limit: expected at least duration, %v, found %v", time.Duration(s.Duration), time.Duration(s.Limit))
	case s.Warm >= s.Duration:
		return f.ErrorAt("warm", "warm: expected less than duration, %v, found %v", time.Duration(s.Duration), time.Duration(s.Warm))
	case len(s.Traffic) == 0:
		return f.ErrorAt("traffic", "traffic: expected at least one, found none")
	case len(s.Traffic) > maxTraffic:
		return f.ErrorAt("traffic", "traffic: expected at most %d, found %d", maxTraffic, len(s.Traffic))
	case len(s.Variants) > maxVariants:
		return f.ErrorAt("variants", "variants: expected at most %d, found %d", maxVariants, len(s.Variants))
	}
	if s.Limit == 0 {
		s.Limit = s.Duration
	}
	if s.Sample == 0 {
		s.Sample = max(s.Duration/200, 1)
	}
	if n := s.Duration / s.Sample; n > maxRate {
		return f.ErrorAt("sample", "sample: expected at most %d samples, found %d", maxRate, n)
	}
	if err := checkParts(f, "", &s.Switch, &s.Sender); err != nil {
		return err
	}
	for i := range s.Variants {
		if s.Variants[i].Name == "" {
			return f.ErrorAt(fmt.Sprintf("variants[%d]", i), "expected a name, found none")
		}
	}
	for i := range s.Traffic {
		if err := s.Traffic[i].check(f, fmt.Sprintf("traffic[%d]", i), hosts, s); err != nil {
			return err
		}
	}
	return nil
}

// checkParts checks the settings of switches and senders.
func checkParts(f *strictyaml.File, at string, w *Switch, s *Sender) error {
	switch m := &w.Mark; {
	case m.Max != 0 && m.Min > m.Max:
		return f.ErrorAt(at+"switch.mark.min", "min: expected at most max, %d, found %d", m.Max, m.Min)
	case !(m.Most >= 0 && m.Most <= 1):
		return f.ErrorAt(at+"switch.mark.most", "most: expected a probability from 0 to 1, found %v", m.Most)
	case m.Max == 0 && (m.Min != 0 || m.Most != 0):
		return f.ErrorAt(at+"switch.mark", "mark: expected max, from which on each packet is marked, found none; {max: 100KiB} is a step")
	case w.Buffer > 1<<30:
		return f.ErrorAt(at+"switch.buffer", "buffer: expected at most 1GiB, found %d bytes", w.Buffer)
	case w.Headroom > 1<<30:
		return f.ErrorAt(at+"switch.headroom", "headroom: expected at most 1GiB, found %d bytes", w.Headroom)
	case s.MTU != 0 && !slices.Contains([]int{256, 512, 1024, 2048, 4096}, s.MTU):
		return f.ErrorAt(at+"sender.mtu", "mtu: expected 256, 512, 1024, 2048 or 4096, found %d", s.MTU)
	case s.Window > 1<<30:
		return f.ErrorAt(at+"sender.window", "window: expected at most 1GiB, found %d bytes", s.Window)
	case s.First > 1<<30:
		return f.ErrorAt(at+"sender.first", "first: expected at most 1GiB, found %d bytes", s.First)
	case s.DCQCN.Bytes > 1<<30:
		return f.ErrorAt(at+"sender.dcqcn.bytes", "bytes: expected at most 1GiB, found %d bytes", s.DCQCN.Bytes)
	case f.Has(at+"sender.dcqcn") && s.Control.Kind != congestion.DCQCN:
		return f.ErrorAt(at+"sender.dcqcn", "dcqcn: expected none for control %s", s.Control)
	case s.Control.Kind == congestion.HPCC && s.Recovery == GoBackN:
		return f.ErrorAt(at+"sender.recovery", "recovery: expected selective for control hpcc, whose acknowledges carry telemetry, found %s", s.Recovery)
	case w.Watchdog != Watchdog{} && !w.PFC:
		return f.ErrorAt(at+"switch.watchdog", "watchdog: expected none without pfc")
	case w.Watchdog != Watchdog{} && w.Watchdog.Detect == 0:
		return f.ErrorAt(at+"switch.watchdog", "watchdog: expected detect, how long a queue is paused until that is a storm, found none")
	}
	return nil
}

// check checks a traffic.
func (t *Traffic) check(f *strictyaml.File, at string, hosts int, s *Scenario) error {
	if t.Kind == "" {
		return f.ErrorAt(at, "expected a kind, one of %v, found none", kinds)
	}
	if t.Name == "" {
		t.Name = string(t.Kind)
	}
	if t.Stop == 0 {
		t.Stop = s.Duration
	}
	if !f.Has(at + ".priority") {
		t.Priority = DefaultPriority
	}
	if t.Priority > 7 {
		return f.ErrorAt(at+".priority", "priority: expected 0 to 7, found %d", t.Priority)
	}
	if t.Kind == Tree && t.Part == 0 {
		t.Part = treePart
	}
	for _, list := range []struct {
		name string
		of   []int
	}{{"hosts", t.Hosts}, {"from", t.From}, {"to", t.To}} {
		seen := map[int]bool{}
		for i, h := range list.of {
			if h < 0 || h >= hosts {
				return f.ErrorAt(fmt.Sprintf("%s.%s[%d]", at, list.name, i), "%s: expected a host from 0 to %d, found %d", list.name, hosts-1, h)
			}
			if list.name == "hosts" && seen[h] {
				return f.ErrorAt(fmt.Sprintf("%s.hosts[%d]", at, i), "hosts: expected each host once, found %d twice", h)
			}
			seen[h] = true
		}
	}
	switch {
	case t.Start >= t.Stop:
		return f.ErrorAt(at+".start", "start: expected a time before stop, %v, found %v", time.Duration(t.Stop), time.Duration(t.Start))
	case t.Every != 0 && (t.Stop-t.Start)/t.Every > maxRate:
		return f.ErrorAt(at+".every", "every: expected at most %d repetitions, found %d", maxRate, (t.Stop-t.Start)/t.Every)
	}
	return t.checkKind(f, at, hosts)
}

// total returns the number of messages that are not random, with the repetitions.
func (t *Traffic) total(members int) int {
	once := members
	switch t.Kind {
	case Random, Storm:
		return 0
	case AllToAll, Ring: // a ring has about twice as many parts
		once = members * (members - 1)
	case Tree: // parts in both directions
		once = 2 * members * int((t.Size+t.Part-1)/t.Part)
	case Message, Streaming:
		once = len(t.From)
	}
	if t.Every == 0 {
		return once
	}
	return once * int(1+(t.Stop-t.Start-1)/t.Every)
}

// checkKind checks what the kinds of traffic need.
func (t *Traffic) checkKind(f *strictyaml.File, at string, hosts int) error {
	none := func(field string) error {
		if f.Has(at + "." + field) {
			return f.ErrorAt(at+"."+field, "%s: expected none for kind %s", field, t.Kind)
		}
		return nil
	}
	pairs := t.Kind == Message || t.Kind == Streaming
	members := hosts
	if len(t.Hosts) > 0 {
		members = len(t.Hosts)
	}
	switch {
	case t.Kind == Random && t.Sizes == "" && t.Size == 0:
		return f.ErrorAt(at, "expected sizes or size for kind %s, found none", t.Kind)
	case t.Kind == Random && !(t.Load > 0 && t.Load <= 2):
		return f.ErrorAt(at+".load", "load: expected a share of the links above 0, such as 0.5, found %v", t.Load)
	case t.Kind != Random && t.Kind != Streaming && t.Kind != Storm && t.Size == 0:
		return f.ErrorAt(at+".size", "size: expected the bytes of a message for kind %s, found none", t.Kind)
	case t.Size > 1<<31:
		return f.ErrorAt(at+".size", "size: expected at most 2GiB, found %d bytes", t.Size)
	case pairs && (len(t.From) == 0 || len(t.To) == 0 || len(t.From) != len(t.To) && len(t.To) != 1):
		return f.ErrorAt(at+".to", "to: expected one host, or as many as from has, %d, found %d", len(t.From), len(t.To))
	case t.Kind == AllToAll && members*(members-1) > maxMessages:
		return f.ErrorAt(at+".kind", "%s: expected at most %d messages at once, found %d", t.Kind, maxMessages, members*(members-1))
	case t.Kind == Storm && len(t.Hosts) == 0:
		return f.ErrorAt(at, "expected hosts that take nothing, found none")
	case !pairs && t.Kind != Storm && members < 2:
		return f.ErrorAt(at+".hosts", "hosts: expected at least 2, found %d", members)
	case t.total(members) > MaxTotal:
		return f.ErrorAt(at+".every", "every: expected at most %d messages of a traffic, found %d", MaxTotal, t.total(members))
	case t.Kind == Incast && len(t.To) > 1:
		return f.ErrorAt(at+".to", "to: expected one host, found %d", len(t.To))
	}
	for i := range t.From {
		if pairs && t.From[i] == t.To[min(i, len(t.To)-1)] {
			return f.ErrorAt(fmt.Sprintf("%s.from[%d]", at, i), "from: expected another host than to, found %d", t.From[i])
		}
	}
	unused := map[Kind][]string{
		Incast: {"from", "sizes", "load", "part"}, Permute: {"from", "to", "sizes", "load", "part"},
		AllToAll: {"from", "to", "sizes", "load", "part"}, Ring: {"from", "to", "sizes", "load", "part"},
		Tree: {"from", "to", "sizes", "load"}, Random: {"from", "to", "every", "part"}, Message: {"hosts", "sizes", "load", "part"},
		Streaming: {"hosts", "size", "every", "sizes", "load", "part"},
		Storm:     {"from", "to", "size", "every", "sizes", "load", "part", "priority"},
	}
	for _, field := range unused[t.Kind] {
		if err := none(field); err != nil {
			return err
		}
	}
	return nil
}
