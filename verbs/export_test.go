package verbs

// SetSharedLanes sets the number of lanes of a shared address, and returns a function that
// restores it.
func SetSharedLanes(n int) (undo func()) {
	old := sharedLanes
	sharedLanes = n
	return func() { sharedLanes = old }
}

// TypedConfigs has one configuration of each kind of device.
var TypedConfigs = []interface{ config() *Config }{
	&RoCEConfig{}, &RoCEv1Config{}, &IWARPConfig{}, &PortConfig{}, &SharedConfig{},
}

// ConfigOf returns what a typed configuration stands for.
func ConfigOf(c interface{ config() *Config }) *Config { return c.config() }
