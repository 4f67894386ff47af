package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// parsePort reads a line of a record. ibnetdiscover writes the GUID of an
// adapter's port in parentheses, at whichever end is an adapter:
//
//	[1]	"H-0000000000100000"[1](100001) 		# "node-1" lid 1 4xEDR
//	[1](100001) 	"S-0000000000200000"[1]		# lid 1 lmc 0 "leaf-1" lid 2 4xEDR
//
// ibsim reads options instead: [1] "Switch1"[1] w=3 s=4.
func (p *parser) parsePort(line string) error {
	if !p.open {
		return p.errorf("a node (Switch, Ca, Rt) before its ports", "%q", line)
	}
	node := len(p.f.Nodes) - 1
	n := &p.f.Nodes[node]
	s := scanner{line}
	local, err := p.parsePortNumber(&s, n)
	if err != nil {
		return err
	}
	if err := p.parseVendorLabel(&s); err != nil {
		return err
	}
	if guid, ok, err := p.parsePortGUID(&s); err != nil {
		return err
	} else if ok && n.Kind != Switch {
		n.Ports[local].GUID = guid
	}
	p.at(&s)
	peer, ok := s.quoted()
	if !ok {
		return p.errorf("the peer's ID in quotation marks", "%s", s.found(""))
	}
	l := link{line: p.line, column: p.column, local: End{node, local}, peer: peer, port: 1, lanes: p.lanes}
	if strings.HasPrefix(s.rest, "[") { // ibsim: without a number it is the peer's port 1
		if l.port, err = p.parsePortNumber(&s, nil); err != nil {
			return err
		}
	}
	if err := p.parseVendorLabel(&s); err != nil {
		return err
	}
	if l.guid, _, err = p.parsePortGUID(&s); err != nil {
		return err
	}
	if err := p.parsePortOptions(&s, &l); err != nil {
		return err
	}
	if err := p.parsePortComment(&s, n, &l); err != nil {
		return err
	}
	p.links = append(p.links, l)
	return nil
}

// parsePortNumber reads "[1]". Without a node it checks the number later.
func (p *parser) parsePortNumber(s *scanner, n *Node) (int, error) {
	p.at(s)
	whole := s.rest
	text, ok := s.bracketed("[", "]")
	number, err := strconv.Atoi(strings.TrimSpace(text))
	if !ok || err != nil || number < 1 || number > MaxPorts {
		return 0, p.errorf(fmt.Sprintf("a port from 1 to %d in brackets", MaxPorts), "%q", whole)
	}
	if n != nil && number > n.NumPorts() {
		return 0, p.errorf(fmt.Sprintf("a port from 1 to %d, as node %q has", n.NumPorts(), n.ID), "port %d", number)
	}
	return number, nil
}

// parseVendorLabel skips "[ext 7]", the label that ibnetdiscover -g prints behind a number.
func (p *parser) parseVendorLabel(s *scanner) error {
	if !strings.HasPrefix(s.rest, "[") {
		return nil
	}
	p.at(s)
	whole := s.rest
	text, ok := s.bracketed("[", "]")
	if !ok || !strings.HasPrefix(text, "ext ") {
		return p.errorf("a label like [ext 7]", "%q", whole)
	}
	return nil
}

// parsePortGUID reads "(100001)", if it is there.
func (p *parser) parsePortGUID(s *scanner) (guid uint64, ok bool, err error) {
	if !strings.HasPrefix(s.rest, "(") {
		return 0, false, nil
	}
	p.at(s)
	whole := s.rest
	text, ok := s.bracketed("(", ")")
	guid, bad := strconv.ParseUint(text, 16, 64)
	if !ok || bad != nil {
		return 0, false, p.errorf("a port's GUID in hexadecimal digits in parentheses", "%q", whole)
	}
	return guid, true, nil
}

// parsePortOptions reads ibsim's "w=3 s=4 e=0".
func (p *parser) parsePortOptions(s *scanner, l *link) error {
	names := map[string]string{"w": "width", "s": "speed", "e": "extspeed"}
	for !s.end() && s.rest[0] != '#' {
		p.at(s)
		word, rest := s.rest, ""
		if i := strings.IndexAny(s.rest, " \t#"); i >= 0 {
			word, rest = s.rest[:i], s.rest[i:]
		}
		name, value, _ := strings.Cut(word, "=")
		v, err := strconv.ParseUint(value, 0, 8)
		if names[name] == "" || err != nil {
			return p.errorf("an option w=, s= or e= with a number", "%q", word)
		}
		if err := p.parseMask(names[name], v, &l.lanes); err != nil {
			return err
		}
		s.rest = rest
	}
	return nil
}

// parsePortComment reads the LID of an adapter's port, and width and speed,
// which are the last word if the comment is ibnetdiscover's.
func (p *parser) parsePortComment(s *scanner, n *Node, l *link) error {
	if !s.take("#") {
		return nil
	}
	end := strings.LastIndex(s.rest, "lid ")
	if end < 0 || strings.Contains(s.rest[end:], `"`) {
		return nil // a remark of the file's author
	}
	if err := p.parseCable(s.rest[end:], l); err != nil {
		return err
	}
	if n.Kind == Switch {
		return nil
	}
	if !strings.HasPrefix(s.rest, "lid ") {
		return nil
	}
	return p.parseLID(s, &n.Ports[l.local.Port])
}

// parseCable reads the link and the length of its cable behind the peer's LID: lid 1 100G 30m.
func (p *parser) parseCable(text string, l *link) error {
	s := scanner{text}
	s.word()
	s.word()
	p.at(&s)
	if s.rest == "" {
		return nil
	}
	word := s.word()
	lanes, err := parseLink(word)
	if err != nil {
		return p.errorf("a link like 4xEDR or 100G behind the peer's LID", "%q", word)
	}
	l.lanes, l.gap = lanes, strings.Contains(word, "??")
	p.at(&s)
	word = s.word()
	if word == "" || word[0] < '0' || word[0] > '9' || !strings.HasSuffix(word, "m") {
		return nil // a remark of the file's author
	}
	if l.length, err = ParseLength(word); err != nil {
		return p.errorf(fmt.Sprintf("a length of the cable from %v to %v", Length(1), MaxLength), "%q", word)
	}
	return nil
}
