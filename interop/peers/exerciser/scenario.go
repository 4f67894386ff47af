package exerciser

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// ScenariosJSON is the text of all scenarios.
//
//go:embed testdata/scenarios.json
var ScenariosJSON []byte

// The two ends of a scenario.
const (
	Client = "client"
	Server = "server"
)

// Scenario is a conversation of two ends over verbs; README.md defines every field and step.
type Scenario struct {
	Name   string  `json:"name"`
	QP     string  `json:"qp"` // RC, UC or UD
	Note   string  `json:"note"`
	Clause string  `json:"clause"` // of the IBTA specification
	Golden bool    `json:"golden"` // recorded in the golden captures
	MTU    int     `json:"mtu"`    // path MTU in bytes; 0: the end's own choice
	PSN    *uint32 `json:"psn"`    // both ends' first PSN; nil: random
	Cut    int     `json:"cut"`    // bytes behind which the connection is reset, by a relay between the ends; 0: not at all
	Client End     `json:"client"`
	Server End     `json:"server"`
}

// End returns the part of the scenario for a role.
func (s *Scenario) End(role string) *End {
	if role == Client {
		return &s.Client
	}
	return &s.Server
}

// End is what one end owns and does. Nil and zero fields have the defaults of README.md.
type End struct {
	Buffer     int      `json:"buffer"`
	Access     []string `json:"access"`
	QPAccess   []string `json:"qp_access"`
	HashFrom   int      `json:"hash_from"`
	Timeout    *int     `json:"timeout"`
	RetryCount *int     `json:"retry_cnt"`
	RNRRetry   *int     `json:"rnr_retry"`
	RNRTimer   *int     `json:"min_rnr_timer"`
	Steps      []Step   `json:"steps"`
}

// Step is one action. Do says which; the other fields belong to some of the actions.
type Step struct {
	Do      string   `json:"do"`
	WR      uint64   `json:"wr"`
	SGE     [][2]int `json:"sge"` // offset in the end's buffer, length
	Op      string   `json:"op"`  // an IBV_WR_ name
	Remote  int64    `json:"roff"`
	Key     string   `json:"key"` // mr, mw or bad
	QKey    string   `json:"qkey"`
	Imm     *uint32  `json:"imm"`
	Compare uint64   `json:"compare"`
	Swap    uint64   `json:"swap"`
	Add     uint64   `json:"add"`
	Flags   []string `json:"flags"` // IBV_SEND_ names; nil: SIGNALED
	CQ      string   `json:"cq"`    // send or recv
	N       int      `json:"n"`
	MS      int      `json:"ms"`
	Type    int      `json:"type"`
	Off     int      `json:"off"`
	Len     int      `json:"len"`
	Access  []string `json:"access"`
}

// Hello is the first message of both ends of a scenario.
type Hello struct {
	Scenario string `json:"scenario"`
	QPN      uint32 `json:"qpn"`
	PSN      uint32 `json:"psn"`
	GID      string `json:"gid"`
	MTU      int    `json:"mtu"`
	QKey     uint32 `json:"qkey"`
	Addr     uint64 `json:"addr"`
	RKey     uint32 `json:"rkey"`
	Len      int    `json:"len"`
	CM       string `json:"cm,omitempty"` // the address of an end whose queue pairs a connection manager connects
	Error    string `json:"error,omitempty"`
}

// CMPortAbove is how much higher than the exerciser's port that of its connection manager is.
const CMPortAbove = 10000

// Barrier is the message of both ends at a barrier.
type Barrier struct {
	Barrier int    `json:"barrier"`
	MWRKey  uint32 `json:"mw_rkey"`
}

// Result is what one end found.
type Result struct {
	Scenario string       `json:"scenario"`
	Role     string       `json:"role"`
	Send     []Completion `json:"send"`
	Recv     []Completion `json:"recv"`
	Refused  []Refusal    `json:"refused,omitempty"`
	Missing  []string     `json:"missing,omitempty"` // the queue of each poll that ran out of time
	SHA256   string       `json:"sha256"`
	GRH      string       `json:"grh,omitempty"` // varies, and is not compared
	State    string       `json:"state"`
}

// Completion is a work completion, with what the standard defines for its status, opcode and queue.
type Completion struct {
	WR          uint64   `json:"wr"`
	Status      string   `json:"status"`
	Opcode      string   `json:"opcode,omitempty"`
	ByteLen     *uint32  `json:"byte_len,omitempty"`
	Flags       []string `json:"flags,omitempty"`
	Imm         *uint32  `json:"imm,omitempty"`
	Invalidated string   `json:"invalidated,omitempty"`
	SrcQP       string   `json:"src_qp,omitempty"`
}

// Refusal is a step that the verbs refused at once.
type Refusal struct {
	Step  int    `json:"step"`
	Errno string `json:"errno,omitempty"`
	Error string `json:"error,omitempty"`
}

var scenarios = sync.OnceValues(func() ([]Scenario, error) {
	var all []Scenario
	if err := json.Unmarshal(ScenariosJSON, &all); err != nil {
		return nil, fmt.Errorf("testdata/scenarios.json: %w", err)
	}
	return all, nil
})

// Scenarios returns all scenarios in their order. The caller must not change them.
func Scenarios() ([]Scenario, error) { return scenarios() }

// OnlyIWARP reports whether a scenario does not apply to RoCE.
func (s *Scenario) OnlyIWARP() bool { return strings.HasPrefix(s.Name, "iwarp_") }

// OverIWARP reports whether a scenario runs over iWARP with siw. Those do not that use datagrams, atomics, immediate
// data, memory windows, a receiver that is not ready, or a peer that stops answering, or that depend on the order of
// completions or on the completion of WRITEs and SENDs before a Terminate, both of which vary with siw.
func (s *Scenario) OverIWARP() bool {
	if s.Cut != 0 || s.OnlyIWARP() {
		return s.Cut == 0
	}
	if s.QP != "RC" || strings.Contains(s.Name, "_rnr_") || slices.Contains([]string{"rc_psn_wrap", "rc_error_then_flush"}, s.Name) {
		return false
	}
	for _, step := range slices.Concat(s.Client.Steps, s.Server.Steps) {
		if strings.Contains(step.Op, "_IMM") || strings.HasPrefix(step.Op, "ATOMIC") || step.Op == "SEND_WITH_INV" || strings.HasSuffix(step.Do, "_mw") || step.Do == "destroy_qp" {
			return false
		}
	}
	return true
}

// Pattern returns the initial content of an end's buffer. Its period is prime, so that data which is displaced by whole
// packets is found.
func Pattern(role string, size int) []byte {
	factor, first := 3, 1
	if role == Server {
		factor, first = 5, 2
	}
	b := make([]byte, size)
	for i := range b {
		b[i] = byte((factor*(i%251) + first) % 251)
	}
	return b
}
