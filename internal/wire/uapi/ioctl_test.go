package uapi

import "testing"

func FuzzAdviseMROf(f *testing.F) {
	attrs := []IoctlAttr{{Data: 1}, {ID: 1, Data: 1}, {ID: 2, Data: 1}, {ID: 3, Len: 32, Data: 1 << 40}}
	var seed []byte
	for i := range attrs {
		seed = append(seed, Bytes(&attrs[i])...)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var list []IoctlAttr
		for len(b) >= Size[IoctlAttr]() && len(list) < MaxIoctlAttrs {
			a, _ := Parse[IoctlAttr](b)
			list, b = append(list, a), b[Size[IoctlAttr]():]
		}
		if a, ok := AdviseMROf(list); ok && (a.SGEs < 1 || a.SGEs > 1<<16/sgeLen || len(list) < adviseAttrs) {
			t.Errorf("%+v of %d attributes", a, len(list))
		}
	})
}
