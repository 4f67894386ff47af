// Package honest is the traffic that an attack must not touch: connections
// between real devices over the loopback, whose every byte is checked, exactly
// once and in order, while package attack does its work. Only tests import it.
//
// It owns the devices, connections and the model of what their memory must hold.
// It never attacks, and never says which refusals an attack must meet: tests ask
// that of [Refusals].
package honest
