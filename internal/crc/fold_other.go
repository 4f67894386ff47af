//go:build !amd64

package crc

const folds = false

func fold(uint32, *byte, int, *multipliers) uint32 { panic("unreachable: folds is false") }
