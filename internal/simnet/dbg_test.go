package simnet_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

func TestDbgCost(t *testing.T) {
	if os.Getenv("DBG") == "" {
		t.Skip()
	}
	var ms runtime.MemStats
	for i := range uint64(200) {
		w := newWorld(mixed(900000 + i))
		_ = w.run()
		if i%20 == 0 {
			runtime.ReadMemStats(&ms)
			fmt.Printf("%d heap %d MB inuse %d MB sys %d MB next %d MB released %d numgc %d total %d MB stack %d goroutines %d pause %d\n", i, ms.HeapAlloc>>20, ms.HeapInuse>>20, ms.Sys>>20, ms.NextGC>>20, ms.HeapReleased>>20, ms.NumGC, ms.TotalAlloc>>20, ms.StackInuse>>20, runtime.NumGoroutine(), ms.PauseTotalNs)
		}
	}
}
