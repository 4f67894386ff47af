// Package tagmatch pairs tagged messages with posted receives, as MPI and UCP define it: a
// message goes to the oldest posted receive whose tag matches, and a receive gets the oldest
// earlier message that matches. The mask of a receive selects the bits of the tag that count.
//
// It owns the order of posted receives and of unexpected messages. It moves no data: its user
// embeds Receive and Message in types that know where the bytes are. It does no I/O, allocates
// nothing, and belongs to one goroutine at a time.
package tagmatch

// All is the mask of a receive for exactly one tag.
const All = 1<<64 - 1

// A Receive is a posted receive. Its user sets the exported fields before Post and does not
// change them while the receive is posted.
type Receive struct {
	Tag, Mask uint64
	Owner     any // for the user

	seq        uint64
	next, prev *Receive
	list       *receives // the list that holds it; nil if it is not posted
}

// Posted reports whether the receive waits for a message.
func (r *Receive) Posted() bool { return r.list != nil }

// A Message is a message that arrived. Its user sets the exported fields before Arrive.
type Message struct {
	Tag   uint64
	Owner any // for the user

	all, same link // in the order of arrival, among all messages and in its bucket
	kept      bool
}

// Unexpected reports whether the message waits for a receive.
func (m *Message) Unexpected() bool { return m.kept }

type link struct{ next, prev *Message }

// matches reports whether a receive accepts a tag.
func matches(tag, mask, found uint64) bool { return (tag^found)&mask == 0 }

// buckets is the number of hash buckets of tags.
const buckets = 1 << 8

// A Matcher holds the posted receives and the unexpected messages of a worker. The zero value
// is ready to use.
type Matcher struct {
	seq      uint64
	exact    [buckets]receives // receives with mask All, by tag
	wild     receives
	all      messages
	same     [buckets]messages
	messages int
	receives int
}

// Messages returns the number of unexpected messages.
func (m *Matcher) Messages() int { return m.messages }

// Receives returns the number of posted receives.
func (m *Matcher) Receives() int { return m.receives }

func bucket(tag uint64) uint64 { return tag * 0x9e3779b97f4a7c15 >> 56 }

// Post removes and returns the oldest unexpected message that matches the receive. If there is
// none, it posts the receive and returns nil.
func (m *Matcher) Post(r *Receive) *Message {
	if x := m.Take(r.Tag, r.Mask); x != nil {
		return x
	}
	r.seq = m.seq
	m.seq++
	m.receives++
	if r.Mask == All {
		m.exact[bucket(r.Tag)].push(r)
	} else {
		m.wild.push(r)
	}
	return nil
}

// Arrive removes and returns the oldest posted receive that matches the message. If there is
// none, it keeps the message and returns nil.
func (m *Matcher) Arrive(x *Message) *Receive {
	exact, wild := m.exact[bucket(x.Tag)].find(x.Tag), m.wild.find(x.Tag)
	r := exact
	if r == nil || wild != nil && wild.seq < r.seq {
		r = wild
	}
	if r != nil {
		m.Cancel(r)
		return r
	}
	m.messages++
	x.kept = true
	m.all.push(x, everyLink)
	m.same[bucket(x.Tag)].push(x, bucketLink)
	return nil
}

// Probe returns the oldest unexpected message that matches a receive with this tag and mask,
// or nil.
func (m *Matcher) Probe(tag, mask uint64) *Message {
	if mask == All {
		for x := m.same[bucket(tag)].head; x != nil; x = x.same.next {
			if x.Tag == tag {
				return x
			}
		}
		return nil
	}
	for x := m.all.head; x != nil; x = x.all.next {
		if matches(tag, mask, x.Tag) {
			return x
		}
	}
	return nil
}

// Take removes a message that Probe returned, so that no other receive gets it.
func (m *Matcher) Take(tag, mask uint64) *Message {
	x := m.Probe(tag, mask)
	if x != nil {
		m.Remove(x)
	}
	return x
}

// Remove removes an unexpected message and reports whether it was one.
func (m *Matcher) Remove(x *Message) bool {
	if !x.kept {
		return false
	}
	x.kept = false
	m.messages--
	m.all.remove(x, everyLink)
	m.same[bucket(x.Tag)].remove(x, bucketLink)
	return true
}

// Cancel removes a posted receive. It reports whether the receive was posted.
func (m *Matcher) Cancel(r *Receive) bool {
	if r.list == nil {
		return false
	}
	m.receives--
	r.list.remove(r)
	return true
}

// Posted returns all posted receives, in no particular order.
func (m *Matcher) Posted() []*Receive {
	var all []*Receive
	add := func(l *receives) {
		for r := l.head; r != nil; r = r.next {
			all = append(all, r)
		}
	}
	add(&m.wild)
	for i := range m.exact {
		add(&m.exact[i])
	}
	return all
}

// receives is a list of receives in the order in which they were posted.
type receives struct{ head, tail *Receive }

func (l *receives) push(r *Receive) {
	r.list, r.prev, r.next = l, l.tail, nil
	if l.tail == nil {
		l.head = r
	} else {
		l.tail.next = r
	}
	l.tail = r
}

func (l *receives) remove(r *Receive) {
	if r.prev == nil {
		l.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.list, r.prev, r.next = nil, nil, nil
}

// find returns the oldest receive that matches a tag.
func (l *receives) find(tag uint64) *Receive {
	for r := l.head; r != nil; r = r.next {
		if matches(r.Tag, r.Mask, tag) {
			return r
		}
	}
	return nil
}

// messages is a list of messages in the order of arrival, linked by one of their links.
type messages struct{ head, tail *Message }

func everyLink(x *Message) *link  { return &x.all }
func bucketLink(x *Message) *link { return &x.same }

func (l *messages) push(x *Message, of func(*Message) *link) {
	k := of(x)
	k.prev, k.next = l.tail, nil
	if l.tail == nil {
		l.head = x
	} else {
		of(l.tail).next = x
	}
	l.tail = x
}

func (l *messages) remove(x *Message, of func(*Message) *link) {
	k := of(x)
	if k.prev == nil {
		l.head = k.next
	} else {
		of(k.prev).next = k.next
	}
	if k.next == nil {
		l.tail = k.prev
	} else {
		of(k.next).prev = k.prev
	}
	*k = link{}
}
