#include "textflag.h"

// The order of bytes that reverses a block.
DATA reversed<>+0(SB)/8, $0x08090a0b0c0d0e0f
DATA reversed<>+8(SB)/8, $0x0001020304050607
GLOBL reversed<>(SB), RODATA|NOPTR, $16

// The order of bytes that reverses the last 32 bits of a block.
DATA counting<>+0(SB)/8, $0x0706050403020100
DATA counting<>+8(SB)/8, $0x0c0d0e0f0b0a0908
GLOBL counting<>(SB), RODATA|NOPTR, $16

// 0 to 3 in the last 32 bits of four blocks, and 4 in all of them.
DATA steps<>+0(SB)/8, $0
DATA steps<>+8(SB)/8, $0
DATA steps<>+16(SB)/8, $0
DATA steps<>+24(SB)/8, $0x0000000100000000
DATA steps<>+32(SB)/8, $0
DATA steps<>+40(SB)/8, $0x0000000200000000
DATA steps<>+48(SB)/8, $0
DATA steps<>+56(SB)/8, $0x0000000300000000
DATA steps<>+64(SB)/8, $0
DATA steps<>+72(SB)/8, $0x0000000400000000
GLOBL steps<>(SB), RODATA|NOPTR, $80

// COUNT makes four counter blocks, encrypted by the first key only, and counts on.
#define COUNT(b) \
	VPSHUFB Z5, Z0, b  \
	VPADDD  Z6, Z0, Z0 \
	VPXORQ  Z16, b, b

// ROUND encrypts 16 blocks by the key of a round.
#define ROUND(k) \
	VAESENC k, Z1, Z1 \
	VAESENC k, Z2, Z2 \
	VAESENC k, Z3, Z3 \
	VAESENC k, Z4, Z4

// LAST is the last round of four blocks, and writes them with the data at off.
#define LAST(b, off) \
	VAESENCLAST Z30, b, b     \
	VPXORQ      off(SI), b, b \
	VMOVDQU64   b, off(DI)

// func xorCTR(keys *[15][16]byte, rounds int, counter *[16]byte, dst, src *byte, n int)
TEXT ·xorCTR(SB), NOSPLIT, $0-48
	MOVQ keys+0(FP), AX
	MOVQ rounds+8(FP), BX
	MOVQ counter+16(FP), DX
	MOVQ dst+24(FP), DI
	MOVQ src+32(FP), SI
	MOVQ n+40(FP), CX
	MOVQ BX, R8
	SHLQ $4, R8

	// Keys: Z16 to Z25, Z26 to Z29 of 256 bits only, Z30 of the last round.
	VBROADCASTI32X4 0(AX), Z16
	VBROADCASTI32X4 16(AX), Z17
	VBROADCASTI32X4 32(AX), Z18
	VBROADCASTI32X4 48(AX), Z19
	VBROADCASTI32X4 64(AX), Z20
	VBROADCASTI32X4 80(AX), Z21
	VBROADCASTI32X4 96(AX), Z22
	VBROADCASTI32X4 112(AX), Z23
	VBROADCASTI32X4 128(AX), Z24
	VBROADCASTI32X4 144(AX), Z25
	VBROADCASTI32X4 (AX)(R8*1), Z30
	CMPQ            BX, $14
	JNE             counters
	VBROADCASTI32X4 160(AX), Z26
	VBROADCASTI32X4 176(AX), Z27
	VBROADCASTI32X4 192(AX), Z28
	VBROADCASTI32X4 208(AX), Z29

counters:
	VBROADCASTI32X4 counting<>(SB), Z5
	VBROADCASTI32X4 steps<>+64(SB), Z6
	VBROADCASTI32X4 (DX), Z0
	VPSHUFB         Z5, Z0, Z0
	VPADDD          steps<>+0(SB), Z0, Z0
	CMPQ            CX, $256
	JB              rest

many: // 16 blocks
	COUNT(Z1)
	COUNT(Z2)
	COUNT(Z3)
	COUNT(Z4)
	ROUND(Z17)
	ROUND(Z18)
	ROUND(Z19)
	ROUND(Z20)
	ROUND(Z21)
	ROUND(Z22)
	ROUND(Z23)
	ROUND(Z24)
	ROUND(Z25)
	CMPQ BX, $14
	JNE  last
	ROUND(Z26)
	ROUND(Z27)
	ROUND(Z28)
	ROUND(Z29)

last:
	LAST(Z1, 0)
	LAST(Z2, 64)
	LAST(Z3, 128)
	LAST(Z4, 192)
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $256, CX
	CMPQ CX, $256
	JAE  many

rest: // up to 4 blocks
	TESTQ   CX, CX
	JEQ     done
	MOVQ    $-1, AX
	BZHIQ   CX, AX, AX // all bits from 64 bytes on
	KMOVQ   AX, K1
	COUNT(Z1)
	VAESENC Z17, Z1, Z1
	VAESENC Z18, Z1, Z1
	VAESENC Z19, Z1, Z1
	VAESENC Z20, Z1, Z1
	VAESENC Z21, Z1, Z1
	VAESENC Z22, Z1, Z1
	VAESENC Z23, Z1, Z1
	VAESENC Z24, Z1, Z1
	VAESENC Z25, Z1, Z1
	CMPQ    BX, $14
	JNE     lastRest
	VAESENC Z26, Z1, Z1
	VAESENC Z27, Z1, Z1
	VAESENC Z28, Z1, Z1
	VAESENC Z29, Z1, Z1

lastRest:
	VAESENCLAST Z30, Z1, Z1
	VMOVDQU8.Z  (SI), K1, Z2
	VPXORQ      Z2, Z1, Z1
	VMOVDQU8    Z1, K1, (DI)
	ADDQ        $64, SI
	ADDQ        $64, DI
	SUBQ        $64, CX
	JA          rest

done:
	VZEROUPPER
	RET

// PRODUCTS adds to Z8 (low), Z9 (high) and Z10 (between them) the products of four blocks, b, and the powers p.
#define PRODUCTS(b, p) \
	VPCLMULQDQ $0x00, p, b, Z12       \
	VPCLMULQDQ $0x11, p, b, Z13       \
	VPCLMULQDQ $0x01, p, b, Z14       \
	VPCLMULQDQ $0x10, p, b, Z15       \
	VPXORQ     Z12, Z8, Z8            \
	VPXORQ     Z13, Z9, Z9            \
	VPTERNLOGQ $0x96, Z14, Z15, Z10

// SUM adds the four blocks of z, in x.
#define SUM(z, y, x) \
	VEXTRACTI64X4 $1, z, Y12   \
	VPXOR         Y12, y, y    \
	VEXTRACTI128  $1, y, X12   \
	VPXOR         X12, x, x

// func hash(sum *[16]byte, powers *[64][16]byte, data *byte, n int)
TEXT ·hash(SB), NOSPLIT, $0-32
	MOVQ            sum+0(FP), DI
	MOVQ            powers+8(FP), DX
	MOVQ            data+16(FP), SI
	MOVQ            n+24(FP), CX
	VMOVDQU         (DI), X0 // and clears the other blocks of Z0
	VBROADCASTI32X4 reversed<>(SB), Z1
	MOVQ            $0xc200000000000000, AX
	VMOVQ           AX, X2

// Up to 64 blocks whose products are reduced together. The last one has the first power, so fewer blocks begin
// at a later one.
part:
	MOVQ    $64, BX
	CMPQ    CX, BX
	CMOVQCS CX, BX
	SUBQ    BX, CX
	LEAQ    1024(DX), R8
	MOVQ    BX, AX
	SHLQ    $4, AX
	SUBQ    AX, R8
	VPXORQ  Z8, Z8, Z8
	VPXORQ  Z9, Z9, Z9
	VPXORQ  Z10, Z10, Z10
	SUBQ    $4, BX
	JB      few

fours:
	VMOVDQU64 (SI), Z4
	VMOVDQU64 (R8), Z5
	VPSHUFB   Z1, Z4, Z4
	VPXORQ    Z0, Z4, Z4
	VPXORQ    Z0, Z0, Z0
	PRODUCTS(Z4, Z5)
	ADDQ      $64, SI
	ADDQ      $64, R8
	SUBQ      $4, BX
	JAE       fours

few: // 0 to 3 blocks more
	ADDQ        $4, BX
	JEQ         reduce
	LEAQ        (SI)(BX*8), SI
	LEAQ        (SI)(BX*8), SI
	SHLQ        $1, BX
	MOVQ        $-1, AX
	BZHIQ       BX, AX, AX
	KMOVQ       AX, K1
	SHLQ        $3, BX
	MOVQ        SI, R9
	SUBQ        BX, R9
	VMOVDQU64.Z (R9), K1, Z4
	VMOVDQU64.Z (R8), K1, Z5
	VPSHUFB     Z1, Z4, Z4
	VPXORQ      Z0, Z4, Z4
	PRODUCTS(Z4, Z5)

// The low half is divided by x^128 in two steps of 64 bits, each of which adds the polynomial so often that
// the lowest bits become 0.
reduce:
	SUM(Z8, Y8, X8)
	SUM(Z9, Y9, X9)
	SUM(Z10, Y10, X10)
	VPSLLDQ    $8, X10, X11
	VPSRLDQ    $8, X10, X10
	VPXOR      X11, X8, X8
	VPXOR      X10, X9, X9
	VPCLMULQDQ $0x00, X2, X8, X11
	VPSHUFD    $0x4e, X8, X8
	VPXOR      X11, X8, X8
	VPCLMULQDQ $0x00, X2, X8, X11
	VPSHUFD    $0x4e, X8, X8
	VPXOR      X11, X8, X8
	VPXOR      X9, X8, X0
	TESTQ      CX, CX
	JNE        part
	VMOVDQU    X0, (DI)
	VZEROUPPER
	RET

// func subWord(w uint32) uint32
TEXT ·subWord(SB), NOSPLIT, $0-12
	MOVL             w+0(FP), AX
	VMOVD            AX, X0
	VPSHUFD          $0, X0, X0
	VAESKEYGENASSIST $0, X0, X0
	VMOVD            X0, AX
	MOVL             AX, ret+8(FP)
	RET
