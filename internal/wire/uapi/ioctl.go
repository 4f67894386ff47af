package uapi

// VerbsIoctl is RDMA_VERBS_IOCTL of rdma/rdma_user_ioctl_cmds.h, whose argument is an
// IoctlHeader and the attributes of a method.
const VerbsIoctl = 0xc0181b01

// MaxIoctlAttrs is the number of attributes that a method here has at most.
const MaxIoctlAttrs = 8

// IoctlHeader is ib_uverbs_ioctl_hdr.
type IoctlHeader struct {
	Length, Object, Method, Attrs uint16
	_                             uint64
	DriverID, _                   uint32
}

// IoctlAttr is ib_uverbs_attr. Data is a handle, the address of Len bytes, or up to eight
// bytes themselves.
type IoctlAttr struct {
	ID, Len, Flags, _ uint16
	Data              uint64
}

// The object and the method of ADVISE_MR (rdma/ib_user_ioctl_cmds.h).
const (
	ObjectMR       = 7
	MethodAdviseMR = 2
)

// The attributes of ADVISE_MR.
const (
	advisePD = iota
	adviseAdvice
	adviseFlags
	adviseList
	adviseAttrs
)

// AdviseMR are the arguments of ADVISE_MR: SGEs scatter/gather entries are at List.
type AdviseMR struct {
	PDHandle, Advice, Flags uint32
	SGEs                    int
	List                    uint64
}

const sgeLen = 16 // of ib_uverbs_sge

// AdviseMROf returns the arguments in attributes, and false if one is missing, unknown or of
// the wrong length.
func AdviseMROf(list []IoctlAttr) (a AdviseMR, ok bool) {
	var seen uint
	for i := range list {
		t := &list[i]
		switch t.ID {
		case advisePD:
			a.PDHandle = uint32(t.Data)
		case adviseAdvice:
			a.Advice = uint32(t.Data)
		case adviseFlags:
			a.Flags = uint32(t.Data)
		case adviseList:
			if t.Len == 0 || t.Len%sgeLen != 0 {
				return a, false
			}
			a.SGEs, a.List = int(t.Len/sgeLen), t.Data
		default:
			return a, false
		}
		seen |= 1 << t.ID
	}
	return a, seen == 1<<adviseAttrs-1
}
