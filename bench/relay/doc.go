// Package relay is a network between two hosts: a link of limited rate with a
// queue before it, that is as long as it is told to be, and loses, delays,
// reorders and marks Ethernet frames as it is told to.
//
// It owns the fate of each frame, as a machine without I/O: frames in, the time
// as an argument, frames out and the next deadline. What it does depends on the
// seed and on the frames' lengths, times and ECN fields alone. It never opens a
// device, reads no clock, and keeps account of every frame, so that whoever
// drives it can tell what it lost from what others did.
package relay
