package provider

// A FabricPort is what a subnet manager has set at a port of an InfiniBand fabric.
type FabricPort struct {
	State             uint8 // as in PortInfo (IBTA 14.2.5.6)
	MaxMTU, ActiveMTU int   // bytes
	SpeedMbps         int
	LID, SMLID        uint16
	LMC, SMSL         uint8
	SubnetPrefix      uint64
	GIDs              [][16]byte // the table, of at least one entry; zero for an empty one
	PKeys             []uint16   // the same
}

// A Fabric is a device that is a port of a fabric.
type Fabric interface{ FabricPort() FabricPort }
