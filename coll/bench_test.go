package coll_test

import (
	"context"
	"fmt"
	"testing"

	"softrdma/coll"
	"softrdma/msg"
)

// BenchmarkAllReduce measures all-reduces of members in this process.
func BenchmarkAllReduce(b *testing.B) {
	const n = 4
	w := openWorkers(b, n, msg.Config{})
	all := w.groups(b, n)
	for _, length := range []int{1, 1 << 20} {
		b.Run(fmt.Sprintf("%d B", 4*length), func(b *testing.B) {
			b.ReportAllocs()
			together(b, all, func(g *coll.Group) error {
				x, err := coll.Alloc[float32](g, length)
				if err != nil {
					return err
				}
				for range b.N {
					if err := coll.AllReduce(context.Background(), g, x, x, coll.Sum[float32]()); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
	closeAll(b, all)
}
