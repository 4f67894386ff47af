package rpc

import (
	"testing"

	"softrdma/internal/session"
)

// The numbers in go doc are those of the protocol.
func TestLimitsAreThoseOfTheProtocol(t *testing.T) {
	if MaxInline != session.MaxFrame-session.HeaderLen || MaxCalls != session.MaxSlots || MaxRedirect != session.MaxAddress || MaxCalls+spareRecv > session.MaxReceives {
		t.Error("the limits of configurations are not those of frames")
	}
}
