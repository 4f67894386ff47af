#include "textflag.h"

// Folding (V. Gopal et al., "Fast CRC Computation for Generic Polynomials
// Using PCLMULQDQ Instruction", 2009): 128 bits that stand d bits before others
// are multiplied by x^d modulo the polynomial and added to those others. Each
// half of 64 bits has its own multiplier.

// FOLD carries the register acc by the multipliers k and adds the bytes at src.
#define FOLD(k, acc, tmp, src) \
	VPCLMULQDQ $0x11, k, acc, tmp \
	VPCLMULQDQ $0x00, k, acc, acc \
	VPXOR      tmp, acc, acc      \
	VPXOR      src, acc, acc

// func leaf7ECX() uint32
TEXT ·leaf7ECX(SB), NOSPLIT, $0-4
	XORL  AX, AX
	CPUID
	CMPL  AX, $7
	JB    none
	MOVL  $7, AX
	XORL  CX, CX
	CPUID
	MOVL  CX, ret+0(FP)
	RET

none:
	MOVL $0, ret+0(FP)
	RET

// func fold(register uint32, p *byte, n int, k *multipliers) uint32
TEXT ·fold(SB), NOSPLIT, $0-36
	MOVL    register+0(FP), AX
	MOVQ    p+8(FP), SI
	MOVQ    n+16(FP), CX
	MOVQ    k+24(FP), DX
	VMOVD   AX, X8             // clears the register's upper bits
	VMOVDQU 64(DX), X9         // multipliers over 128 bits
	CMPQ    CX, $128
	JB      short
	VMOVDQU 0(SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VPXOR   Y8, Y0, Y0         // the register counts in the first four bytes
	VMOVDQU 0(DX), Y10         // multipliers over 1024 bits
	VMOVDQU 32(DX), Y11        // ... and 256
	ADDQ    $128, SI
	SUBQ    $128, CX
	CMPQ    CX, $128
	JB      join

blocks: // four folds of 32 bytes, independent of each other
	FOLD(Y10, Y0, Y4, 0(SI))
	FOLD(Y10, Y1, Y5, 32(SI))
	FOLD(Y10, Y2, Y6, 64(SI))
	FOLD(Y10, Y3, Y7, 96(SI))
	ADDQ $128, SI
	SUBQ $128, CX
	CMPQ CX, $128
	JAE  blocks

join: // the four into one
	FOLD(Y11, Y0, Y4, Y1)
	FOLD(Y11, Y0, Y4, Y2)
	FOLD(Y11, Y0, Y4, Y3)
	CMPQ CX, $32
	JB   halves

pairs:
	FOLD(Y11, Y0, Y4, 0(SI))
	ADDQ $32, SI
	SUBQ $32, CX
	CMPQ CX, $32
	JAE  pairs

halves: // the lower 128 bits stand first in memory
	VEXTRACTI128 $1, Y0, X1
	FOLD(X9, X0, X4, X1)
	JMP          lanes

short:
	VMOVDQU 0(SI), X0
	VPXOR   X8, X0, X0
	ADDQ    $16, SI
	SUBQ    $16, CX

lanes:
	CMPQ CX, $16
	JB   done
	FOLD(X9, X0, X4, 0(SI))
	ADDQ $16, SI
	SUBQ $16, CX
	JMP  lanes

done: // 128 bits to 96, to 64
	VMOVDQU    96(DX), X9          // x^96, x^64
	VPCMPEQD   X3, X3, X3
	VPSRLDQ    $12, X3, X3         // mask of 32 bits
	VPCLMULQDQ $0x00, X0, X9, X1
	VPSRLDQ    $8, X0, X0
	VPXOR      X1, X0, X0
	VPSRLDQ    $4, X0, X2
	VPAND      X3, X0, X0
	VPCLMULQDQ $0x01, X0, X9, X0
	VPXOR      X2, X0, X0

	// Barrett: the quotient by the reciprocal, the rest by the polynomial.
	VMOVDQU    112(DX), X9         // polynomial, reciprocal
	VPAND      X3, X0, X1
	VPCLMULQDQ $0x01, X1, X9, X1
	VPAND      X3, X1, X1
	VPCLMULQDQ $0x00, X1, X9, X1
	VPXOR      X1, X0, X0
	VPEXTRD    $1, X0, AX
	MOVL       AX, ret+32(FP)
	VZEROUPPER
	RET
