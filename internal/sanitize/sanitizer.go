package sanitize

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"softrdma/internal/memory"
	"softrdma/internal/queue"
	"softrdma/internal/reason"
)

// A Config says what a Sanitizer checks and whom it tells.
type Config struct {
	Rules Rules

	// Where returns the position of the program's present call, innermost first; nil if there is
	// none. It is called by the thread of the call.
	Where func() []uintptr

	// Frames resolves positions. It is called for findings only.
	Frames func([]uintptr) []Frame

	// Suppressed findings are not reported.
	Suppressed Suppressions

	// Report gets each finding, once for each place. It must not call the device.
	Report func(*Finding)
}

// A Sanitizer checks the use of a device.
type Sanitizer struct {
	cfg Config

	mu       sync.Mutex
	objects  map[any]*object
	regions  map[uint32]*region // by key, also those that are deregistered
	gone     []uint32           // keys of deregistered regions, the oldest first
	pairs    map[any]*pair
	receives map[any]*receives // by queue pair, or by shared receive queue
	queues   map[any]*completions
	lent     loans
	seen     map[string]bool

	expected int         // events of completion queues that were asked for and not taken
	armed    map[any]int // the same, by channel
	hidden   bool        // programs ask for events without a call

	next  int // number of the next object
	ended bool
}

// remembered is how many deregistered regions a Sanitizer knows.
const remembered = 4096

// New makes a Sanitizer for one device, nil without a configuration.
func New(cfg *Config) *Sanitizer {
	if cfg == nil {
		return nil
	}
	return &Sanitizer{
		cfg: *cfg, objects: make(map[any]*object), regions: make(map[uint32]*region), pairs: make(map[any]*pair),
		receives: make(map[any]*receives), queues: make(map[any]*completions), armed: make(map[any]int), seen: make(map[string]bool),
	}
}

// An object is what a program has created.
type object struct {
	number int // in the order of creation
	name   string
	where  []uintptr
}

// A region is registered memory.
type region struct {
	*memory.Region
	object
	ended bool
	end   []uintptr // where it was deregistered
}

// Created notes a new object of the program, by a value that stands for it.
func (s *Sanitizer) Created(o any, name string) {
	if s != nil {
		s.created(o, name)
	}
}

func (s *Sanitizer) created(o any, name string) *object {
	where := s.where()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next++
	x := &object{number: s.next, name: name, where: where}
	s.objects[o] = x
	return x
}

// Destroyed notes that an object has been destroyed.
func (s *Sanitizer) Destroyed(o any) {
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if q := s.queues[o]; q != nil {
			s.checkQueue(q)
		}
		s.empty(o)
		delete(s.objects, o)
		delete(s.pairs, o)
		delete(s.receives, o)
		delete(s.queues, o)
	}
}

// Registered notes a new region.
func (s *Sanitizer) Registered(r *memory.Region) {
	if s == nil {
		return
	}
	x := s.created(r, fmt.Sprintf("region %#x, %d bytes at %#x", r.Key, r.Len(), r.Base))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.regions[r.Key] = &region{Region: r, object: *x}
	r.Watch(s)
}

// Deregistering notes that a region is about to be deregistered.
func (s *Sanitizer) Deregistering(r *memory.Region) {
	if s != nil {
		s.deregistering(r)
	}
}

func (s *Sanitizer) deregistering(r *memory.Region) {
	where := s.where()
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.regions[r.Key]
	if x == nil || x.Region != r {
		return
	}
	for _, q := range s.sorted() {
		if what, posted := q.uses(r.Key); what != "" {
			s.report(DeregInFlight, &x.object, fmt.Sprintf("deregistered while %s of %s is in flight", what, q.name), where,
				x.registered(), note{"the request was posted", posted})
		}
	}
	s.checkRights(x, where)
}

// Deregistered notes that a region has been deregistered.
func (s *Sanitizer) Deregistered(r *memory.Region) {
	if s == nil {
		return
	}
	where := s.where()
	s.Destroyed(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.regions[r.Key]
	if x == nil || x.Region != r {
		return
	}
	x.ended, x.end = true, where
	for mem := r.Bytes(r.Base, int(r.Len())); ; {
		l := s.lent.of(mem)
		if l == nil {
			break
		}
		s.lent.remove(l)
	}
	if s.gone = append(s.gone, r.Key); len(s.gone) > remembered {
		if old := s.regions[s.gone[0]]; old != nil && old.ended {
			delete(s.regions, s.gone[0])
		}
		s.gone = s.gone[1:]
	}
}

// checkRights finds remote rights that no peer has used.
func (s *Sanitizer) checkRights(x *region, where []uintptr) {
	unused, known := x.UnusedRights()
	if known && unused != 0 {
		s.report(RightsUnused, &x.object, fmt.Sprintf("no peer has used %v", unused), where, x.registered())
	}
}

// Refused notes what a queue pair has refused for a reason.
func (s *Sanitizer) Refused(qpn uint32, d reason.Detail) {
	if s == nil || d.Reason != reason.NoReceive && d.Reason != reason.KeyUnknown && d.Reason != reason.PacketNoReceive {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Reason == reason.KeyUnknown {
		if x := s.regions[uint32(d.Found)]; x != nil && x.ended {
			s.report(UseAfterDereg, &x.object, "a peer uses its key", nil, x.deregistered(), x.registered())
		}
		return
	}
	for _, q := range s.sorted() {
		if q.QPN == qpn {
			s.report(ReceiveMissing, &q.object, fmt.Sprintf("a message came and no receive is posted, of %d that the queue has room for", q.receiveDepth()), nil, q.createdAt())
		}
	}
}

// Arming notes that the program asks for an event of a completion queue, which was armed already or
// not.
func (s *Sanitizer) Arming(o any, already bool) {
	if s == nil || already {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.queues[o]; q != nil && q.Events {
		s.expected++
		s.armed[q.Channel]++
	}
}

// Waits notes that the program waits for an event of its completion queues.
func (s *Sanitizer) Waits() {
	if s == nil {
		return
	}
	where := s.where()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expected > 0 || s.hidden {
		return
	}
	var first *completions
	for _, q := range s.queues {
		if q.Events && (first == nil || q.number < first.number) {
			first = q
		}
	}
	if first != nil {
		s.report(EventUnarmed, &first.object, "the program waits for an event, and no queue was armed since its last one", where, first.createdAt())
	}
}

// Took notes that the program has taken an event.
func (s *Sanitizer) Took() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected--
}

// TookFrom is Took of an event of a channel.
func (s *Sanitizer) TookFrom(channel any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected--
	if s.armed[channel]--; s.armed[channel] <= 0 {
		delete(s.armed, channel)
	}
}

// GaveUp notes that the program has waited for an event of a channel and got none. Another goroutine
// may arm a queue while one waits already, so the wait is a mistake only if completions came meanwhile.
func (s *Sanitizer) GaveUp(channel any) {
	if s == nil {
		return
	}
	where := s.where()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.armed[channel] > 0 {
		return
	}
	for _, q := range s.queues {
		if ring := q.Ring(); q.Events && q.Channel == channel && ring.Len() > 0 && ring.At(ring.Consumer()).Status != queue.WRFlushErr {
			s.report(EventUnarmed, &q.object, fmt.Sprintf("the program waited for an event and got none, %d completions came, and no queue was armed", ring.Len()), where, q.createdAt())
			return
		}
	}
}

// Ended notes that the program has ended, or has closed the device, with what it has left.
func (s *Sanitizer) Ended() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	for _, q := range s.queues {
		s.checkQueue(q)
	}
	for _, x := range s.regions {
		if !x.ended {
			s.checkRights(x, nil)
		}
	}
	s.leaked(slices.Collect(maps.Values(s.objects)))
}

// Abandoned notes that the program has closed its file of the device with these objects.
func (s *Sanitizer) Abandoned(list []any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []*object
	for _, o := range list {
		if x := s.objects[o]; x != nil && !s.ended {
			left = append(left, x)
		}
	}
	s.leaked(left)
}

func (s *Sanitizer) leaked(left []*object) {
	slices.SortFunc(left, func(a, b *object) int { return a.number - b.number })
	for _, x := range left {
		s.report(ObjectLeaked, x, "never destroyed", nil, x.createdAt())
	}
}

// sorted returns the queue pairs in the order of their creation.
func (s *Sanitizer) sorted() []*pair {
	return slices.SortedFunc(maps.Values(s.pairs), func(a, b *pair) int { return a.number - b.number })
}

func (s *Sanitizer) where() []uintptr {
	if s.cfg.Where == nil {
		return nil
	}
	return s.cfg.Where()
}

// A note says where something happened before.
type note struct {
	what  string
	where []uintptr
}

func (o *object) createdAt() note    { return note{o.name + " was created", o.where} }
func (r *region) registered() note   { return note{"the region was registered", r.where} }
func (r *region) deregistered() note { return note{"the region was deregistered", r.end} }

// report makes a finding, unless the place has one of this rule. A place is all positions, or the
// object if there are none.
func (s *Sanitizer) report(rule Rule, o *object, found string, where []uintptr, before ...note) {
	if !s.cfg.Rules.Has(rule) {
		return
	}
	place := fmt.Sprint(rule, where)
	known := len(where) > 0
	for _, n := range before {
		place += fmt.Sprint(n.where)
		known = known || len(n.where) > 0
	}
	if !known {
		place = fmt.Sprint(rule, o.number)
	}
	if s.seen[place] {
		return
	}
	s.seen[place] = true
	f := &Finding{rule: rule, Rule: rule.String(), Object: o.name, Found: found, Where: s.frames(where), Text: rule.Text()}
	for _, n := range before {
		if frames := s.frames(n.where); len(frames) > 0 {
			f.Before = append(f.Before, Note{n.what, frames})
		}
	}
	if !s.cfg.Suppressed.Match(f) {
		s.cfg.Report(f)
	}
}

func (s *Sanitizer) frames(where []uintptr) []Frame {
	if len(where) == 0 || s.cfg.Frames == nil {
		return nil
	}
	return s.cfg.Frames(where)
}
