//go:build !amd64

package aesgcm

import "crypto/cipher"

const usable = false

func newWide([]byte) cipher.AEAD { panic("aesgcm: no wide instructions") }
