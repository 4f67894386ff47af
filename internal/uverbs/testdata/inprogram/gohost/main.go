//go:build linux && cgo

// Command gohost is a Go program that uses verbs by cgo. It has a Go runtime of its own
// beside the engine's.
package main

/*
#cgo CFLAGS: -D_GNU_SOURCE -I${SRCDIR}/.. -Wno-unused-function
#cgo LDFLAGS: -libverbs
#include "verbs.h"

static struct device d;
static void begin(void) { device_begin(&d); }
static void use(void) { traffic(&d); }
static int registers(void)
{
	struct ibv_mr *m = ibv_reg_mr(d.pd, d.memory, SIZE, rights);

	return m && ibv_dereg_mr(m) == 0;
}
*/
import "C"

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
)

func main() {
	C.begin()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGCHLD)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				if C.registers() == 0 {
					panic("a region cannot be registered")
				}
				_ = syscall.Kill(os.Getpid(), syscall.SIGUSR1)
				fault()
			}
		})
	}
	for range 50 {
		C.use()
		runtime.GC()
		if err := exec.Command("true").Run(); err != nil {
			panic(err)
		}
	}
	all.Wait()
	<-signals
	fmt.Println("ok")
}

// fault recovers from a fault of this runtime.
func fault() {
	defer func() {
		if recover() == nil {
			panic("no fault")
		}
	}()
	var p *int
	*p = 1
}
