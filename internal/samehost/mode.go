package samehost

import (
	"fmt"

	"softrdma/internal/reason"
)

// A Mode decides when a device uses the memory path.
type Mode uint8

// The modes.
const (
	Auto    Mode = iota // for peers that it reaches
	Off                 // never
	Require             // for every peer; others are refused
)

var modeNames = [...]string{"auto", "off", "require"}

// String returns "auto", "off" or "require".
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// ParseMode returns the mode named by a text. The empty text means Auto.
func ParseMode(s string) (Mode, error) {
	if s == "" {
		return Auto, nil
	}
	for m, name := range modeNames {
		if s == name {
			return Mode(m), nil
		}
	}
	return 0, reason.BadArgument(0, 0, "same-host mode %q: expected auto, off or require", s)
}

func init() {
	reason.Name(reason.NumHostMode, func(v uint64) string {
		if v >= uint64(len(modeNames)) {
			return ""
		}
		return modeNames[v]
	})
}
