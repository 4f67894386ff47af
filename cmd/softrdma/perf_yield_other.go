//go:build !linux

package main

import "time"

func schedYield() { time.Sleep(time.Microsecond) }
