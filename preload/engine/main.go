//go:build linux && cgo

// Command engine is the library that the preloaded library opens in a program: the devices
// of a C program in its own process. It has functions for C and nothing else; package
// program is the engine.
package main

/*
#cgo CFLAGS: -I${SRCDIR}/../src
#cgo LDFLAGS: -Wl,--wrap=pthread_create
#include <errno.h>
#include "engine.h"
#include "preload.h"

static int softrdma_position(engine_position *f, void ***addresses) { return f(addresses); }
*/
import "C"

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"softrdma/internal/adapter/deferral"
	"softrdma/internal/inherit"
	"softrdma/internal/uverbs/client"
	"softrdma/internal/uverbs/program"
	"softrdma/internal/wire/uapi"
)

func main() {}

// engine is set once, before the first call.
var engine *program.Engine

//export softrdma_engine_start
func softrdma_engine_start(d *C.struct_deferral, places C.size_t, verbose C.int) {
	setRuntime()
	inherit.Into((*[C.INHERITED]int32)(unsafe.Pointer(&C.softrdma_engine_inherited))[:])
	var log func(string)
	if verbose != 0 {
		log = func(line string) { fmt.Fprintln(os.Stderr, "softrdma:", line) }
	}
	engine = program.New(deferrals(d, places), log)
}

//export softrdma_engine_open
func softrdma_engine_open(socket, file *C.char, why *C.char, room C.size_t) C.int {
	first, err := engine.Open(C.GoString(socket), C.GoString(file))
	if err == nil {
		return 0
	}
	text := ""
	if first {
		text = err.Error()
	}
	say(text, why, room)
	return -C.int(client.Errno(err))
}

// say stores a text.
func say(s string, why *C.char, room C.size_t) {
	text := unsafe.Slice((*byte)(unsafe.Pointer(why)), room)
	text[copy(text[:room-1], s)] = 0
}

var _ [unsafe.Sizeof(deferral.Place{})]byte = [C.sizeof_struct_deferral]byte{} // of one size

// deferrals returns the memory in which the program finds out which doorbells to omit.
func deferrals(d *C.struct_deferral, n C.size_t) []deferral.Place {
	return unsafe.Slice((*deferral.Place)(unsafe.Pointer(d)), n)
}

// setRuntime undoes settings of Go's environment variables, which are meant for Go programs.
func setRuntime() {
	runtime.SetDefaultGOMAXPROCS()
	debug.SetGCPercent(100)
	debug.SetMemoryLimit(math.MaxInt64)
	debug.SetMaxThreads(math.MaxInt32) // each calling thread of the program counts
}

//export softrdma_engine_call
func softrdma_engine_call(r *C.struct_request, n C.size_t, p *C.struct_reply, fds *C.int, count *C.int) {
	b := unsafe.Slice((*byte)(unsafe.Pointer(r)), n)
	request := (*uapi.Request)(unsafe.Pointer(r))
	answer, list := engine.Call(request, b[uapi.RequestLen:])
	*(*uapi.Reply)(unsafe.Pointer(p)) = answer
	to := unsafe.Slice(fds, C.MAX_FDS)
	for i, fd := range list {
		to[i] = C.int(fd)
	}
	*count = C.int(len(list))
}

//export softrdma_engine_doorbell
func softrdma_engine_doorbell(file C.uint64_t, handle C.uint32_t) C.int {
	return errno(engine.Doorbell(uint64(file), uint32(handle)))
}

//export softrdma_engine_progress
func softrdma_engine_progress(file C.uint64_t, handle C.uint32_t, mayYield C.int) C.int {
	return errno(engine.Progress(uint64(file), uint32(handle), mayYield != 0))
}

//export softrdma_engine_flush
func softrdma_engine_flush() { engine.Flush() }

//export softrdma_engine_poll
func softrdma_engine_poll(file C.uint64_t) { engine.Poll(uint64(file)) }

//export softrdma_engine_attend
func softrdma_engine_attend(file C.uint64_t) { engine.Attend(uint64(file)) }

//export softrdma_engine_sanitize
func softrdma_engine_sanitize(rules, suppressions, json *C.char, position *C.engine_position, why *C.char, room C.size_t) C.int {
	err := engine.Sanitize(C.GoString(rules), C.GoString(suppressions), C.GoString(json), func() []uintptr {
		var at *unsafe.Pointer
		n := C.softrdma_position(position, &at)
		list := make([]uintptr, n)
		for i, p := range unsafe.Slice(at, n) {
			list[i] = uintptr(p)
		}
		return list
	})
	if err == nil {
		return 0
	}
	say(err.Error(), why, room)
	return -C.EINVAL
}

//export softrdma_engine_waits
func softrdma_engine_waits(file C.uint64_t, took C.int) { engine.Waits(uint64(file), took != 0) }

//export softrdma_engine_posted
func softrdma_engine_posted(file C.uint64_t, handle C.uint32_t, receives C.int) {
	engine.Posted(uint64(file), uint32(handle), receives != 0)
}

//export softrdma_engine_leave
func softrdma_engine_leave() { engine.Leave() }

func errno(err error) C.int {
	if err == nil {
		return 0
	}
	return -C.int(client.Errno(err))
}
