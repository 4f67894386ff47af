package coll

// The bits of a tag. Receives do not compare the bits of what: a member that calls something else
// is an error and no wait.
//
//	63      the package's tags
//	62      control: not part of a call
//	61-58   id of the groups (Config.ID)
//	57-46   sender, by its rank in the first group
//	45-34   member that numbered the group, by its rank in the first group
//	33-14   number of the group
//	13-10   number of the call, modulo 16
//	9-0     what: of a call its operation (5 bits) and algorithm (5 bits)
const (
	tagPackage = 1 << 63
	tagControl = 1 << 62

	shiftID     = 58
	shiftSender = 46
	shiftGroup  = 14
	shiftCall   = 10
	shiftWord   = 10 // of a call's number on boards, before what
	shiftStep   = 16 // of the word, before the steps of the call
	stepMask    = 1<<shiftStep - 1
	numberBits  = 64 - shiftStep - shiftWord // of a call's number on boards
	numberMask  = 1<<numberBits - 1

	// MaxMembers is the largest number of members of a group.
	MaxMembers = 1 << 12
	// MaxID is the largest Config.ID.
	MaxID = 1<<4 - 1

	maxNumbers = 1 << 20 // groups that one member numbers
	callMask   = 1<<4 - 1
	whatMask   = 1<<10 - 1
)

// What control messages are.
const (
	whatNotice = 1 + iota // of a failure
	whatSeen              // the sender has seen that the receiver leaves
	whatFlush             // everything that was sent before has arrived
	whatWatch  = 1 << 9   // not received until the receiver leaves
)

// A groupID identifies a group among those of one Config.ID: the member that numbered it, and its
// number.
type groupID uint32

func newGroupID(rank int, number uint32) groupID { return groupID(uint32(rank)<<20 | number) }

// tag returns the tag of a message.
func (m *mesh) tag(sender int, g groupID, call uint8, what uint16) uint64 {
	return tagPackage | m.id<<shiftID | uint64(sender)<<shiftSender | uint64(g)<<shiftGroup | uint64(call&callMask)<<shiftCall | uint64(what)
}

// sender returns the rank in the first group of a message's sender.
func sender(tag uint64) int { return int(tag >> shiftSender & (MaxMembers - 1)) }

// group returns the group of a message.
func group(tag uint64) groupID { return groupID(uint32(tag >> shiftGroup)) }
