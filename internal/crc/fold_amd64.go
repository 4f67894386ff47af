package crc

import "golang.org/x/sys/cpu"

// folds tells whether fold works here. x/sys/cpu tells of VPCLMULQDQ only
// together with AVX-512, which fold does not need.
var folds = cpu.X86.HasAVX2 && cpu.X86.HasPCLMULQDQ && leaf7ECX()&(1<<10) != 0

// leaf7ECX is register ECX of CPUID leaf 7; bit 10 tells of VPCLMULQDQ.
func leaf7ECX() uint32

// fold takes the register over n bytes at p, a positive multiple of 16.
//
//go:noescape
func fold(register uint32, p *byte, n int, k *multipliers) uint32
