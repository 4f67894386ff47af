#include "textflag.h"

// ADD adds blocks of 128 bytes: dst = left + right. The left operand is the first one, whose NaN
// counts if both are.
#define ADD(op) \
	MOVQ dst+0(FP), DI \
	MOVQ left+8(FP), SI \
	MOVQ right+16(FP), DX \
	MOVQ blocks+24(FP), CX \
loop: \
	VMOVUPS 0(SI), Y0 \
	VMOVUPS 32(SI), Y1 \
	VMOVUPS 64(SI), Y2 \
	VMOVUPS 96(SI), Y3 \
	op 0(DX), Y0, Y0 \
	op 32(DX), Y1, Y1 \
	op 64(DX), Y2, Y2 \
	op 96(DX), Y3, Y3 \
	VMOVUPS Y0, 0(DI) \
	VMOVUPS Y1, 32(DI) \
	VMOVUPS Y2, 64(DI) \
	VMOVUPS Y3, 96(DI) \
	ADDQ $128, SI \
	ADDQ $128, DX \
	ADDQ $128, DI \
	DECQ CX \
	JNZ loop \
	VZEROUPPER \
	RET

// func addFloat32(dst, left, right unsafe.Pointer, blocks int)
TEXT ·addFloat32(SB), NOSPLIT, $0-32
	ADD(VADDPS)

// func addFloat64(dst, left, right unsafe.Pointer, blocks int)
TEXT ·addFloat64(SB), NOSPLIT, $0-32
	ADD(VADDPD)

// func addInt32(dst, left, right unsafe.Pointer, blocks int)
TEXT ·addInt32(SB), NOSPLIT, $0-32
	ADD(VPADDD)

// func addInt64(dst, left, right unsafe.Pointer, blocks int)
TEXT ·addInt64(SB), NOSPLIT, $0-32
	ADD(VPADDQ)
