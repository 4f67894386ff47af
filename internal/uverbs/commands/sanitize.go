//go:build linux

package commands

import "softrdma/internal/adapter"

// abandon tells the sanitizer, if there is one, which objects the program leaves behind.
func abandon(x *context) {
	s := x.dev.Adapter.Sanitizer()
	if s == nil {
		return
	}
	var left []any
	for _, o := range x.objects {
		switch o := o.(type) {
		case *queuePair:
			left = append(left, o.a)
		case *cq:
			left = append(left, o.a)
		case *srq:
			left = append(left, o.a)
		case *mr:
			left = append(left, o.r)
		case *mw:
			left = append(left, adapter.WindowObject(o.key))
		case *ah:
			left = append(left, adapter.HandleObject(o.num))
		case *pd:
			left = append(left, o.a)
		}
	}
	s.Abandoned(left)
}

// Posted implements client.Direct.
func (x *context) Posted(handle uint32, receives bool) {
	e := x.direct.find(handle)
	if e == nil {
		e = &directEntry{}
		if !x.file.Between(func() { e.qp, _ = find[*queuePair](x, handle); e.srq, _ = find[*srq](x, handle) }) {
			return
		}
	}
	switch {
	case e.qp != nil && receives:
		e.qp.a.PostedReceives()
	case e.qp != nil:
		e.qp.a.PostedRequests()
	case e.srq != nil:
		e.srq.a.PostedReceives()
	}
}
