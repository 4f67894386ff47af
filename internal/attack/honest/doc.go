// Package honest generates the legitimate traffic that an attack must not affect:
// connections between real devices over the loopback interface. It checks that every
// byte arrives exactly once and in order while package attack sends. Only tests import
// it.
//
// It owns the devices, the connections and the model of their memory. It sends no
// attacks and does not decide which refusals they must cause: tests check [Refusals].
package honest
