package rpc

import (
	"testing"

	"softrdma/internal/session"
)

func TestLimitsOfHeadersAreThoseOfFrames(t *testing.T) {
	if MaxHeaders != session.MaxHeaders || MaxHeader != session.MaxHeader || MaxHeaderName != session.MaxHeaderName {
		t.Errorf("%d bytes, %d values, names of %d bytes, expected %d, %d, %d", MaxHeaders, MaxHeader, MaxHeaderName,
			session.MaxHeaders, session.MaxHeader, session.MaxHeaderName)
	}
}
