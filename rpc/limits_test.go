package rpc

import (
	"testing"

	"softrdma/internal/carrier"
	"softrdma/internal/session"
)

// The numbers in go doc are those of the protocol.
func TestLimitsAreThoseOfTheProtocol(t *testing.T) {
	if MaxInline != session.MaxFrame-session.HeaderLen || MaxCalls != session.MaxSlots || MaxRedirect != session.MaxAddress || MaxCalls+carrier.SpareReceives > session.MaxReceives {
		t.Error("the limits of configurations are not those of frames")
	}
	if MaxHeaders != session.MaxHeaders || MaxHeader != session.MaxHeader || MaxHeaderName != session.MaxHeaderName {
		t.Error("the limits of headers are not those of frames")
	}
}
