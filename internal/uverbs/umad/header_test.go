//go:build linux

package umad

import (
	"testing"

	"softrdma/internal/wire/mad"
)

func TestResponse(t *testing.T) {
	for name, c := range map[string]struct {
		h    mad.Header
		want bool
	}{
		"a request":                             {mad.Header{Class: mad.ClassPerformance, Method: mad.MethodGet}, false},
		"a response":                            {mad.Header{Class: mad.ClassPerformance, Method: mad.MethodGet | mad.ResponseBit}, true},
		"a repressed trap":                      {mad.Header{Class: mad.ClassLIDRouted, Method: mad.MethodTrapRepress}, true},
		"a request to a baseboard manager":      {mad.Header{Class: mad.ClassBaseboard, Method: mad.MethodSend}, false},
		"the response of a baseboard manager":   {mad.Header{Class: mad.ClassBaseboard, Method: mad.MethodSend, Modifier: modifierResponse}, true},
		"another class with the modifier's bit": {mad.Header{Class: mad.ClassPerformance, Method: mad.MethodSend, Modifier: modifierResponse}, false},
	} {
		if got := response(&c.h); got != c.want {
			t.Errorf("%s: a response: %v, expected %v", name, got, c.want)
		}
	}
}
