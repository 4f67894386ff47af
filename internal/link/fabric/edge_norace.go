//go:build !race

package fabric

func beforePut() {}

func afterNext() {}
