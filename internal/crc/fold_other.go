//go:build !amd64

package crc

const folds = false

func fold(*[16]byte, uint32, *byte, int, *[3][4]uint64) { panic("unreachable: folds is false") }
