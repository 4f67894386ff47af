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

// FOLD512 is FOLD with 512 bits at a time; three-way exclusive or is one
// instruction there.
#define FOLD512(k, acc, tmp, src) \
	VPCLMULQDQ $0x11, k, acc, tmp \
	VPCLMULQDQ $0x00, k, acc, acc \
	VPTERNLOGQ $0x96, src, tmp, acc

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

// func fold(register uint32, p *byte, n int, k *multipliers, wide bool) uint32
TEXT ·fold(SB), NOSPLIT, $0-44
	MOVL  register+0(FP), AX
	MOVQ  p+8(FP), SI
	MOVQ  n+16(FP), CX
	MOVQ  k+24(FP), DX
	MOVBLZX wide+32(FP), BX
	VMOVD AX, X8               // clears the register's upper bits
	VMOVDQU 64(DX), X9         // multipliers over 128 bits
	CALL  body<>(SB)
	MOVL  AX, ret+40(FP)
	RET

// func foldBehind(low, high uint64, p *byte, n int, k *multipliers, wide bool) uint32
TEXT ·foldBehind(SB), NOSPLIT, $0-52
	MOVQ    p+16(FP), SI
	MOVQ    n+24(FP), CX
	MOVQ    k+32(FP), DX
	MOVBLZX wide+40(FP), BX
	VMOVQ   low+0(FP), X8
	VPINSRQ $1, high+8(FP), X8, X8
	VMOVDQU 64(DX), X9
	VPCLMULQDQ $0x11, X9, X8, X0 // FOLD, but for the bytes
	VPCLMULQDQ $0x00, X9, X8, X8
	VPXOR   X0, X8, X8
	CALL    body<>(SB)
	MOVL    AX, ret+48(FP)
	RET

// body folds CX bytes at SI to 32 bits, AX, with X8 added to the first ones: a
// register, or what stood before them, carried here. DX has the multipliers, X9
// those over 128 bits, BX tells of width.
TEXT body<>(SB), NOSPLIT|NOFRAME, $0-0
	VBROADCASTI128 48(DX), Y11        // multipliers over 256 bits
	CMPQ           CX, $128
	JB             short
	CMPQ           CX, $512
	JB             narrow
	TESTL          BX, BX
	JNE            quarters

narrow:
	VMOVDQU        0(SI), Y0
	VMOVDQU        32(SI), Y1
	VMOVDQU        64(SI), Y2
	VMOVDQU        96(SI), Y3
	VPXOR          Y8, Y0, Y0         // the register, or what was before, counts in the first bytes
	VBROADCASTI128 16(DX), Y10        // multipliers over 1024 bits
	ADDQ           $128, SI
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

rest:
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

quarters: // as narrow and blocks, 64 bytes at a time
	VMOVDQU64       0(SI), Z0
	VMOVDQU64       64(SI), Z1
	VMOVDQU64       128(SI), Z2
	VMOVDQU64       192(SI), Z3
	VPXORQ          Z8, Z0, Z0
	VBROADCASTI64X2 0(DX), Z10        // multipliers over 2048 bits
	VBROADCASTI64X2 32(DX), Z12       // ... and 512
	ADDQ            $256, SI
	SUBQ            $256, CX

wideblocks:
	FOLD512(Z10, Z0, Z4, 0(SI))
	FOLD512(Z10, Z1, Z5, 64(SI))
	FOLD512(Z10, Z2, Z6, 128(SI))
	FOLD512(Z10, Z3, Z7, 192(SI))
	ADDQ $256, SI
	SUBQ $256, CX
	CMPQ CX, $256
	JAE  wideblocks

	FOLD512(Z12, Z0, Z4, Z1)
	FOLD512(Z12, Z0, Z4, Z2)
	FOLD512(Z12, Z0, Z4, Z3)
	CMPQ CX, $64
	JB   quarter

singles:
	FOLD512(Z12, Z0, Z4, 0(SI))
	ADDQ $64, SI
	SUBQ $64, CX
	CMPQ CX, $64
	JAE  singles

quarter: // the lower 256 bits stand first in memory
	VEXTRACTI64X4 $1, Z0, Y1
	FOLD(Y11, Y0, Y4, Y1)
	JMP           rest

done: // 128 bits to 96, to 64
	VMOVDQU    80(DX), X9          // x^96, x^64
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
	VMOVDQU    96(DX), X9         // polynomial, reciprocal
	VPAND      X3, X0, X1
	VPCLMULQDQ $0x01, X1, X9, X1
	VPAND      X3, X1, X1
	VPCLMULQDQ $0x00, X1, X9, X1
	VPXOR      X1, X0, X0
	VPEXTRD    $1, X0, AX
	VZEROUPPER
	RET
