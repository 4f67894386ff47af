package faults

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The actions of commands to a storage target (package storage/nvmeof/target).
const (
	FailCommand     Action = "fail-command"     // NVMeStatus: without data
	DelayCommand    Action = "delay-command"    // Time: before it is executed
	LoseCompletion  Action = "lose-completion"  // the command is executed and never answered
	ResetController Action = "reset-controller" // the connections of the host's controller end
	LosePath        Action = "lose-path"        // Time: as reset-controller, and hosts cannot connect to the device for so long
)

// CommandFacts are what rules select commands by.
type CommandFacts struct {
	Peer      netip.Addr
	QPN       uint32
	Command   string // as capsule.Command.Name
	Subsystem string
	Namespace uint32
	LBA       uint64 // first block
	Blocks    uint64 // 0 if the command names none
	Size      int    // bytes of data
}

// OnCommands reports whether rules apply to commands. A nil injector has no rules.
func (x *Injector) OnCommands() bool { return x.has(ofCommands) }

// Command decides about a command before it is executed. The first rule that hits decides. The time is that of
// Now, and Struck learns of the effect.
func (x *Injector) Command(f CommandFacts) Effect {
	if !x.OnCommands() {
		return Effect{}
	}
	now := time.Duration(0)
	if x.Now != nil {
		now = x.Now()
	}
	what := fmt.Sprintf("%s to namespace %d of %s from %v", f.Command, f.Namespace, f.Subsystem, f.Peer)
	if f.Blocks > 0 {
		what += fmt.Sprintf(", blocks %d-%d", f.LBA, f.LBA+f.Blocks-1)
	}
	e := x.object(now, ofCommands, Hit{What: what}, func(m *matcher) bool { return m.command(&f) })
	if e.Action != "" && x.Struck != nil {
		x.Struck(f.QPN, &e)
	}
	return e
}

func (m *matcher) command(f *CommandFacts) bool {
	s := &m.rule.Select
	switch {
	case m.peer.IsValid() && m.peer != f.Peer.Unmap(), s.QP != 0 && s.QP != f.QPN, f.Size < s.MinSize, s.MaxSize > 0 && f.Size > s.MaxSize,
		s.Subsystem != "" && s.Subsystem != f.Subsystem, s.Namespace != 0 && s.Namespace != f.Namespace,
		len(s.Command) > 0 && !slices.Contains(s.Command, f.Command):
		return false
	case s.LBA == "":
		return true
	}
	first, last, _ := parseLBA(s.LBA) // checked
	return f.Blocks > 0 && f.LBA <= last && f.LBA+f.Blocks-1 >= first
}

// parseLBA parses blocks, as 100 or 100-199.
func parseLBA(text string) (first, last uint64, err error) {
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	if first, err = strconv.ParseUint(from, 0, 64); err == nil {
		last, err = strconv.ParseUint(to, 0, 64)
	}
	if err == nil && last < first {
		err = strconv.ErrRange
	}
	return first, last, err
}

// ofTargets checks the fields that only commands to targets have.
func (r *Rule) ofTargets() *Error {
	s := &r.Select
	if r.NVMeStatus > maxNVMeStatus {
		return &Error{0, "nvme_status", fmt.Sprintf("at most %d", maxNVMeStatus), fmt.Sprint(r.NVMeStatus)}
	}
	if s.LBA != "" {
		if _, _, err := parseLBA(s.LBA); err != nil {
			return &Error{0, "lba", "a block or a range, as 100 or 100-199", s.LBA}
		}
	}
	if classesOf(r) == ofCommands {
		return nil
	}
	for _, f := range []struct {
		name, text string
		set        bool
	}{
		{"subsystem", s.Subsystem, s.Subsystem != ""}, {"namespace", fmt.Sprint(s.Namespace), s.Namespace != 0},
		{"command", strings.Join(s.Command, ", "), len(s.Command) > 0}, {"lba", s.LBA, s.LBA != ""},
	} {
		if f.set {
			return &Error{0, f.name, fmt.Sprintf("no %s of action %s", f.name, r.Action), f.text}
		}
	}
	return nil
}

// commands are the names of commands, those that the target's package has.
var commands = []string{
	"abort", "asynchronous event request", "authentication receive", "authentication send", "compare", "connect", "dataset management",
	"disconnect", "flush", "get features", "get log page", "identify", "keep alive", "property get", "property set", "read",
	"reservation acquire", "reservation register", "reservation release", "reservation report", "set features",
	"write", "write zeroes",
}

// maxNVMeStatus is the largest status: 3 bits of type, 8 of code.
const maxNVMeStatus = 1<<11 - 1
