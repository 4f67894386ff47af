package inherit

import (
	"slices"
	"testing"
)

func TestListHoldsAddedDescriptorsUntilRemoved(t *testing.T) {
	Add(3) // there is no list
	var list [4]int32
	Into(list[:])
	defer Into(nil)
	Add(0, 5)
	Add(7)
	Remove(5, 6)
	Add(8, 9, 10) // more than there is room for
	if want := []int32{1, 9, 8, 10}; !slices.Equal(list[:], want) {
		t.Errorf("list %v, expected %v", list, want)
	}
	Remove(0, 7, 8, 9)
	if list != [4]int32{} {
		t.Errorf("list %v, expected none", list)
	}
}
