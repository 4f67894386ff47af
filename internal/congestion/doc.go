// Package congestion decides how much and how fast one queue pair sends: a
// window of bytes in flight, a rate, or both, from what the network tells by
// acknowledges, losses, round trips and congestion notifications (annex A17.9.3,
// RFC 3168).
//
// A Control belongs to one queue pair and is driven by its protocol machine;
// the time is an argument. The package sends nothing, keeps no timer (what
// would expire is caught up with at the next call) and never decides what is
// lost: whoever counts packets does.
package congestion
