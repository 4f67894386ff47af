package crc

import "golang.org/x/sys/cpu"

// folds reports whether fold works here. x/sys/cpu reports VPCLMULQDQ only
// together with AVX-512, which fold does not need.
var folds = cpu.X86.HasAVX2 && cpu.X86.HasPCLMULQDQ && leaf7ECX()&(1<<10) != 0

// wide reports whether fold can process 512 bits at a time.
var wide = folds && cpu.X86.HasAVX512F

// multiplies reports whether hash/crc32 multiplies polynomials here.
var multiplies = cpu.X86.HasPCLMULQDQ && cpu.X86.HasSSE41

// leaf7ECX is register ECX of CPUID leaf 7; bit 10 is VPCLMULQDQ.
func leaf7ECX() uint32

// fold updates the register with n bytes at p, a positive multiple of 16. With wide it
// processes 512 bits at a time, which needs AVX-512F.
//
//go:noescape
func fold(register uint32, p *byte, n int, k *multipliers, wide bool) uint32

// foldBehind is fold, from a register of zero, over the 16 bytes of low and high in
// memory order and then n bytes at p.
//
//go:noescape
func foldBehind(low, high uint64, p *byte, n int, k *multipliers, wide bool) uint32
