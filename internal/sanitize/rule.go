package sanitize

import (
	"fmt"
	"iter"
	"strings"
)

// A Rule is a mistake that a Sanitizer finds.
type Rule uint8

// The rules.
const (
	UseAfterDereg Rule = iota
	DeregInFlight
	LKeyOtherPD
	SendChanged
	ReceiveChanged
	ReadChanged
	SendsUnsignaled
	CQTooShallow
	CQUnpolled
	FailureUnpolled
	EventUnarmed
	ReceiveMissing
	AtomicUnaligned
	ObjectLeaked
	RightsUnused
	KeySent
	rules
)

// A Text describes a rule for people.
type Text struct {
	Happens string // what goes wrong
	Says    string // what the standard says
	Clause  string // of the standard
	Do      string // what to do
}

// row is a rule's name, and whether it is checked unless others are asked for.
var rows = [rules]struct {
	name   string
	always bool
	text   Text
}{
	UseAfterDereg: {"USE_AFTER_DEREG", true, Text{
		"A request names the key of a region that is deregistered. The request fails, or another region has the key by then and the wrong memory is read or written.",
		"A key is valid until its region is deregistered. A request that names another key completes with a local protection error.",
		"IBTA 10.6.3",
		"Deregister a region after the last request that names it has completed."}},
	DeregInFlight: {"DEREG_IN_FLIGHT", true, Text{
		"A region is deregistered while requests that name it have not completed. They fail, or the adapter uses memory that the program has already reused.",
		"The consumer must not deregister a region while work requests that refer to it are outstanding.",
		"IBTA 10.6.3",
		"Poll the completions of these requests first, or destroy the queue pair before the region."}},
	LKeyOtherPD: {"LKEY_OTHER_PD", true, Text{
		"A request names a region of another protection domain than its queue's. It completes with a local protection error.",
		"A queue pair may access only regions of its own protection domain.",
		"IBTA 10.2.3",
		"Register the memory in the protection domain of the queue pair, or of the shared receive queue."}},
	SendChanged: {"SEND_CHANGED", true, Text{
		"A buffer changed after it was posted and before the request completed: the program wrote to it, or a message that arrived was placed in it. The peer may get the old bytes, the new ones or some of each.",
		"A buffer of a work request belongs to the adapter until the request's completion was taken from the completion queue.",
		"IBTA 10.8.2, 11.4.1.1",
		"Wait for the completion before the buffer is reused, and send from other memory than you receive to."}},
	ReceiveChanged: {"RECEIVE_CHANGED", true, Text{
		"A buffer changed after it was posted as a receive and before a message came for it: the program wrote to it. The message overwrites that, or the program writes over the message.",
		"A buffer of a work request belongs to the adapter until the request's completion was taken from the completion queue.",
		"IBTA 10.8.2, 11.4.1.2",
		"Prepare the buffer before it is posted, or write to other memory."}},
	ReadChanged: {"READ_CHANGED", true, Text{
		"A buffer changed after it was posted for the answer of a READ or of an atomic operation and before the answer came: the program wrote to it. The answer overwrites that, or the program writes over the answer.",
		"A buffer of a work request belongs to the adapter until the request's completion was taken from the completion queue.",
		"IBTA 10.8.2, 11.4.1.1",
		"Wait for the completion before the buffer is written to, or read into other memory."}},
	SendsUnsignaled: {"SENDS_UNSIGNALED", true, Text{
		"A whole send queue of requests was posted without one that asks for a completion. Without a completion to poll, the program never learns that entries are free, and most adapters never free them.",
		"An unsignalled request is complete when a later signalled one of its queue has completed.",
		"IBTA 10.8.3, 11.4.1.1",
		"Signal at least one request for each length of the send queue, and poll its completion."}},
	CQTooShallow: {"CQ_TOO_SHALLOW", true, Text{
		"The requests that are posted can complete to more entries than the completion queue has room for. It overflows if the program polls too late, and then its queue pairs fail.",
		"The consumer must make sure that a completion queue has room for all completions. An overflow is a fatal error of the queue.",
		"IBTA 11.6.3.2",
		"Create the completion queue with the sum of the depths of all queues that use it, or post less."}},
	CQUnpolled: {"CQ_UNPOLLED", true, Text{
		"Requests completed, and the program never polled the completion queue. The program cannot know whether they succeeded or when their buffers are free.",
		"Resources of a request belong to the consumer again when its completion was retrieved.",
		"IBTA 11.4.2.1",
		"Poll the completion queue, or do not ask for completions that the program does not need."}},
	FailureUnpolled: {"FAILURE_UNPOLLED", true, Text{
		"A request failed, and its completion was still in the queue at the end: the program never saw the failure.",
		"The status of a request is in its completion only. The queue pair is in the error state after it.",
		"IBTA 11.4.2.1, 11.6.2",
		"Poll until the queue is empty before it is destroyed, and look at each status."}},
	EventUnarmed: {"EVENT_UNARMED", true, Text{
		"The program waits for an event of a completion channel, and none of the channel's queues was armed since its last event. It may wait forever.",
		"A completion queue raises one event for each request for notification, and none for completions that are in the queue already.",
		"IBTA 11.4.2.2",
		"Call ibv_req_notify_cq, poll until the queue is empty, and only then wait."}},
	ReceiveMissing: {"RECEIVE_MISSING", true, Text{
		"A message arrived and no receive was posted for it. A reliable connection sends an RNR NAK and the peer waits and sends again, or fails.",
		"The consumer must post receives before the peer sends.",
		"IBTA 9.7.5.2.8",
		"Post more receives, or post them sooner: before the connection is established, and again before the answer that lets the peer send."}},
	AtomicUnaligned: {"ATOMIC_UNALIGNED", true, Text{
		"The remote address of an atomic operation is not a multiple of 8. The responder refuses the request and the queue pair fails.",
		"The virtual address of an atomic operation must be aligned to 8 bytes.",
		"IBTA 9.4.5, 9.7.4.1.3",
		"Align the operand to 8 bytes."}},
	ObjectLeaked: {"OBJECT_LEAKED", true, Text{
		"The program closed the device, or ended in order, and had not destroyed an object.",
		"Objects live until they are destroyed, and hold resources of the adapter and pinned memory meanwhile.",
		"IBTA 11.2",
		"Destroy the object when it is no longer needed, users before what they use."}},
	RightsUnused: {"RIGHTS_UNUSED", false, Text{
		"A region was registered with remote rights and deregistered, and no peer has used one of them.",
		"A peer that knows the key may use each right that the region grants.",
		"IBTA 10.6.3",
		"Register memory with the rights that peers need, and no others."}},
	KeySent: {"KEY_SENT", false, Text{
		"A message tells the peer the address and the key of a region that the peer cannot use: the region was deregistered, or it grants no remote right. A request with this key fails, and the connection with it.",
		"A remote key is valid while its region is registered, for the rights that the region grants to peers.",
		"IBTA 10.6.3, 9.7.4.1.5",
		"Send the rkey of a region with remote rights, before it is deregistered. Keep keys of local memory to yourself."}},
}

// String returns the rule's name.
func (r Rule) String() string {
	if r < rules {
		return rows[r].name
	}
	return fmt.Sprintf("rule %d", uint8(r))
}

// Text describes the rule.
func (r Rule) Text() Text { return rows[r].text }

// Default reports whether the rule is checked unless others are asked for.
func (r Rule) Default() bool { return rows[r].always }

// All returns all rules.
func All() iter.Seq[Rule] {
	return func(yield func(Rule) bool) {
		for r := range rules {
			if !yield(r) {
				return
			}
		}
	}
}

// Rules are a set of rules.
type Rules uint32

// Has reports whether the rule is in the set.
func (s Rules) Has(r Rule) bool { return s>>r&1 != 0 }

const (
	ruleDefault = "default"
	ruleAll     = "all"
)

// ParseRules returns the rules of a list such as "default,RIGHTS_UNUSED" or "all,-OBJECT_LEAKED". An
// empty list is "default", and so is the start of a list whose first name has a minus sign.
func ParseRules(list string) (s Rules, err error) {
	if list == "" || strings.HasPrefix(list, "-") {
		list = ruleDefault + "," + list
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(list, ","), ",") {
		name, without := strings.CutPrefix(strings.TrimSpace(name), "-")
		found := Rules(0)
		for r := range All() {
			if strings.EqualFold(name, r.String()) || strings.EqualFold(name, ruleAll) || strings.EqualFold(name, ruleDefault) && r.Default() {
				found |= 1 << r
			}
		}
		if found == 0 {
			return 0, fmt.Errorf("rules: expected %s, found %q", strings.Join(Names(), ", "), name)
		}
		if without {
			s &^= found
		} else {
			s |= found
		}
	}
	return s, nil
}

// Names returns what lists of rules may have.
func Names() []string {
	list := []string{ruleDefault, ruleAll}
	for r := range All() {
		list = append(list, r.String())
	}
	return list
}
