// Package relay emulates a network between two hosts: a link of limited rate with a
// queue before it. It delays, loses, reorders and ECN-marks Ethernet frames.
//
// It is a machine without I/O: frames in, the time as an argument, frames out and the
// next deadline. What happens to a frame depends only on the seed and on the frames'
// lengths, times and ECN fields. The package opens no device and reads no clock. It
// counts every frame, so that its losses can be distinguished from others.
package relay
