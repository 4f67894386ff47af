package adapter

import (
	"errors"
	"testing"

	"softrdma/internal/qp"
)

func TestCreateQPOfAnUnknownTypeIsUnsupported(t *testing.T) {
	e := newEnd(t, "192.0.2.1:4791", Config{Manual: true}, qp.UD, 16)
	for _, typ := range []qp.Type{0, qp.UD + 1, 255} {
		_, err := e.pd.CreateQP(&QPConfig{Type: typ, SendCQ: e.cq, RecvCQ: e.cq, SendDepth: 1, SendSGE: 1, RecvDepth: 1, RecvSGE: 1})
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("type %d: %v, expected %q", typ, err, errors.ErrUnsupported)
		}
	}
	if n := e.dev.Count().QP; n != 1 {
		t.Errorf("%d queue pairs, expected 1", n)
	}
}
