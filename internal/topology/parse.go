package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// An Error says where a file is wrong, what was expected there, and what was found.
type Error struct {
	File     string
	Line     int
	Column   int // byte of the line, from 1 on
	Expected string
	Found    string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: expected %s, found %s", e.File, e.Line, e.Column, e.Expected, e.Found)
}

// Parse reads a topology in the format of ibnetdiscover's output and of ibsim's
// files. The file's name appears in errors only.
//
// A file has a record for each node. Attributes in front of it (switchguid=,
// caguid=, vendid=, …) apply to it; ibsim's attributes width=, speed= and
// extspeed= apply to all that follow.
//
//	switchguid=0x200000(200000)
//	Switch	8 "S-0000000000200000"		# "leaf-1" base port 0 lid 2 lmc 0
//	[1]	"H-0000000000100000"[1](100001) 		# "node-1" lid 1 4xEDR
//
//	caguid=0x100000
//	Ca	1 "H-0000000000100000"		# "node-1"
//	[1](100001) 	"S-0000000000200000"[1]		# lid 1 lmc 0 "leaf-1" lid 2 4xEDR
//
// A link of Ethernet has a speed like 100G instead of 4xEDR. The length of a cable may follow in
// metres, as in 100G 30m.
//
// A file that names a GUID twice, links a port twice, or contradicts itself in
// another way is refused with the line where the contradiction shows. A link
// that only one end mentions is accepted. ibsim's lines "module", "include", "do"
// and aliases ("@[1] …") are refused.
//
// The output of ibnetdiscover for a real network has gaps: nodes and types that it
// could not read, and ends of a link that do not agree on its width. Parse leaves out
// what is missing, takes the smaller of two widths or speeds, and returns a warning
// with the line for each.
func Parse(file, text string) (f *Fabric, warnings []string, err error) {
	p := parser{file: file, f: &Fabric{}, ids: make(map[string]int), guids: make(map[uint64]int), next: [4]uint64{Adapter: 0x100000, Switch: 0x200000, Router: 0x300000}}
	p.base = p.next
	for line := range strings.Lines(text) {
		p.line++
		p.text, p.column = strings.TrimRight(line, "\r\n\t "), 1
		if err := p.parseLine(p.text); err != nil {
			return nil, nil, err
		}
	}
	p.column = 1
	if len(p.f.Nodes) == 0 {
		return nil, nil, p.errorf("a node, like: Switch 8 \"leaf-1\"", "the end of the file")
	}
	if err := p.link(); err != nil {
		return nil, nil, err
	}
	return p.f, p.warnings, nil
}

// A parser holds what was read so far.
type parser struct {
	file   string
	line   int
	column int    // where the part of the line begins that is read
	text   string // of the line
	f      *Fabric
	ids    map[string]int // node by ID
	guids  map[uint64]int // line of each node GUID
	links  []link
	open   bool // the last line belongs to a node's record
	skip   bool // the last line belongs to the record of a node of unknown type

	warnings []string

	// The GUID of the next node of each kind, and the base that "+" adds to (ibsim).
	base, next [4]uint64

	// Attributes of the next node.
	vendor, device uint32
	system         uint64

	// Defaults of the links that follow.
	lanes lanes
}

// A link is one line of a record.
type link struct {
	line   int
	column int // of the peer
	local  End
	peer   string // ID
	port   int
	guid   uint64 // of the peer's port, if the line has it
	lanes  lanes
	length Length
	gap    bool // the line has ?? or ??? instead of a width or speed
}

func (p *parser) errorf(expected, format string, found ...any) *Error {
	return &Error{File: p.file, Line: p.line, Column: p.column, Expected: expected, Found: fmt.Sprintf(format, found...)}
}

// at notes that the rest of the line is read now, where an error would be.
func (p *parser) at(s *scanner) {
	s.skipSpace()
	p.column = len(p.text) - len(s.rest) + 1
}

func (p *parser) warnf(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf("%s:%d:%d: ", p.file, p.line, p.column)+fmt.Sprintf(format, args...))
}

// unknownType is what ibnetdiscover prints for a type of node that it does not know.
const unknownType = "???"

// parseLine reads one line, which is trimmed at its end.
func (p *parser) parseLine(line string) error {
	word, _, _ := strings.Cut(line, " ")
	word, _, _ = strings.Cut(word, "\t")
	switch {
	case line == "":
		p.open, p.skip = false, false
		return nil
	case strings.HasPrefix(strings.TrimLeft(line, " \t"), "#"):
		return nil
	case p.skip && line[0] == '[' || strings.HasPrefix(word, unknownType+"guid="):
		return nil
	case word == unknownType:
		p.warnf("node%s has an unknown type: it is left out", line[len(word):])
		p.forget()
		p.open, p.skip = false, true
		return nil
	case line[0] == '[':
		return p.parsePort(line)
	case word == "Switch":
		return p.parseNode(Switch, line[len(word):])
	case word == "Ca" || word == "Hca":
		return p.parseNode(Adapter, line[len(word):])
	case word == "Rt":
		return p.parseNode(Router, line[len(word):])
	case word == "Chassis" || word == "Non-Chassis": // headings of ibnetdiscover -g
		return nil
	}
	if i := strings.IndexAny(line, "=+"); i > 0 {
		return p.parseAttribute(line[:i], line[i], line[i+1:])
	}
	return p.errorf("a node (Switch, Ca, Rt), a port ([1] …), an attribute (switchguid=…) or a comment", "%q", line)
}

// parseAttribute reads an assignment in front of a node.
func (p *parser) parseAttribute(name string, sign byte, value string) error {
	p.open, p.skip = false, false
	value, _, _ = strings.Cut(value, "#")
	value, _, _ = strings.Cut(value, "(") // switchguid=0x200000(200000) repeats itself
	value = strings.TrimSpace(value)
	v, err := strconv.ParseUint(value, 0, 64)
	if err != nil {
		p.column = len(name) + 2
		return p.errorf("a number after "+name+string(sign), "%q", value)
	}
	switch name {
	case "switchguid", "switchguids":
		p.setGUID(Switch, sign, v)
	case "caguid", "caguids", "hcaguid", "hcaguids":
		p.setGUID(Adapter, sign, v)
	case "rtguid", "rtguids":
		p.setGUID(Router, sign, v)
	case "vendid", "devid":
		if v > 0xFFFFFFFF {
			return p.errorf("a number of 32 bits after "+name+"=", "%q", value)
		}
		if name == "vendid" {
			p.vendor = uint32(v)
		} else {
			p.device = uint32(v)
		}
	case "sysimgguid":
		p.system = v
	case "width", "speed", "extspeed":
		return p.parseMask(name, v, &p.lanes)
	default:
		return p.errorf("switchguid, caguid, rtguid, sysimgguid, vendid, devid, width, speed or extspeed", "the attribute %q", name)
	}
	return nil
}

// setGUID sets the GUID of the next node of a kind.
func (p *parser) setGUID(k Kind, sign byte, v uint64) {
	if sign == '+' {
		v += p.base[k]
	} else {
		p.base[k] = v
	}
	p.next[k] = v
}

// parseNode reads the first line of a record behind its first word.
func (p *parser) parseNode(k Kind, rest string) error {
	s := scanner{rest}
	p.at(&s)
	ports, ok := s.number()
	if !ok || ports < 1 || ports > MaxPorts {
		return p.errorf(fmt.Sprintf("a number of ports from 1 to %d", MaxPorts), "%s", s.found(rest))
	}
	p.at(&s)
	id, ok := s.quoted()
	if !ok || id == "" {
		return p.errorf("a node's ID in quotation marks", "%s", s.found(rest))
	}
	if i, ok := p.ids[id]; ok {
		return p.errorf("an ID that no other node has", "%q, which line %d has", id, p.guids[p.f.Nodes[i].GUID])
	}
	guid := p.next[k]
	if at, ok := p.guids[guid]; ok {
		return p.errorf("a GUID that no other node has", "0x%016x, which the node of line %d has", guid, at)
	}
	i := p.f.addNode(k, id, id, guid, int(ports))
	p.ids[id], p.guids[guid] = i, p.line
	p.next[k] = guid + ports + 1
	if k == Switch {
		p.next[k] = guid + 1
	}
	n := &p.f.Nodes[i]
	n.VendorID, n.DeviceID = p.vendor, p.device
	if p.system != 0 {
		n.SystemGUID = p.system
	}
	p.forget()
	p.open, p.skip = true, false
	return p.parseNodeComment(n, &s)
}

// forget ends the attributes of a node.
func (p *parser) forget() { p.vendor, p.device, p.system = 0, 0, 0 }

// parseNodeComment reads: # "leaf-1" enhanced port 0 lid 2 lmc 0.
func (p *parser) parseNodeComment(n *Node, s *scanner) error {
	if s.end() {
		return nil
	}
	p.at(s)
	if !s.take("#") {
		return p.errorf("a comment or the end of the line", "%s", s.found(""))
	}
	p.at(s)
	if d, ok := s.quoted(); ok {
		if len(d) > MaxDescription {
			return p.errorf(fmt.Sprintf("a description of %d bytes at most", MaxDescription), "%d bytes", len(d))
		}
		n.Description = d
	}
	if n.Kind != Switch {
		return nil
	}
	n.EnhancedPort0 = strings.HasPrefix(s.rest, "enhanced port 0")
	return p.parseLID(s, &n.Ports[0])
}

// parseLID reads "lid 2 lmc 0" wherever it stands in the rest of a line.
func (p *parser) parseLID(s *scanner, port *Port) error {
	i := strings.Index(s.rest, "lid ")
	if i < 0 {
		return nil
	}
	s.rest = s.rest[i:]
	s.take("lid")
	p.at(s)
	lid, ok := s.number()
	if !ok || lid > LastUnicastLID {
		return p.errorf("a unicast LID", "%s", s.found(""))
	}
	port.LID = uint16(lid)
	if !s.take("lmc") {
		return nil
	}
	p.at(s)
	lmc, ok := s.number()
	if !ok || lmc > MaxLMC {
		return p.errorf(fmt.Sprintf("an LMC of 0 to %d", MaxLMC), "%s", s.found(""))
	}
	port.LMC = uint8(lmc)
	return nil
}
