package qp

import (
	"errors"
	"strings"
	"testing"
)

// columns are the transitions that have attributes, in the order of the letters below. Every
// other legal one takes only IBV_QP_STATE.
var columns = [][2]State{{Reset, Init}, {Init, Init}, {Init, RTR}, {RTR, RTS}, {RTS, RTS}, {RTS, SQD}, {SQD, RTS}, {SQD, SQD}, {SQE, RTS}}

// spec is the table of IBTA 11.2.5.2 by attribute: R means required, O optional, a dot not
// allowed, and X no such transition.
var spec = map[Type]string{
	RC: `IBV_QP_CUR_STATE           ...OO.O.X
	     IBV_QP_ACCESS_FLAGS        ROOOO.OOX
	     IBV_QP_PKEY_INDEX          ROO....OX
	     IBV_QP_PORT                RO.....OX
	     IBV_QP_AV                  ..R....OX
	     IBV_QP_PATH_MTU            ..R.....X
	     IBV_QP_DEST_QPN            ..R.....X
	     IBV_QP_RQ_PSN              ..R.....X
	     IBV_QP_MAX_DEST_RD_ATOMIC  ..R....OX
	     IBV_QP_MIN_RNR_TIMER       ..ROO.OOX
	     IBV_QP_TIMEOUT             ...R...OX
	     IBV_QP_RETRY_CNT           ...R...OX
	     IBV_QP_RNR_RETRY           ...R...OX
	     IBV_QP_MAX_QP_RD_ATOMIC    ...R...OX
	     IBV_QP_SQ_PSN              ...R....X
	     IBV_QP_ALT_PATH            ..OOO.OOX
	     IBV_QP_PATH_MIG_STATE      ...OO.OOX
	     IBV_QP_EN_SQD_ASYNC_NOTIFY .....O..X`,
	UC: `IBV_QP_CUR_STATE           ...OO.O.O
	     IBV_QP_ACCESS_FLAGS        ROOOO.OOO
	     IBV_QP_PKEY_INDEX          ROO....O.
	     IBV_QP_PORT                RO.......
	     IBV_QP_AV                  ..R....O.
	     IBV_QP_PATH_MTU            ..R......
	     IBV_QP_DEST_QPN            ..R......
	     IBV_QP_RQ_PSN              ..R......
	     IBV_QP_SQ_PSN              ...R.....
	     IBV_QP_ALT_PATH            ..OOO.OO.
	     IBV_QP_PATH_MIG_STATE      ...OO.OO.
	     IBV_QP_EN_SQD_ASYNC_NOTIFY .....O...`,
	// Annex A14, as Linux interprets it.
	XRCSend: `IBV_QP_CUR_STATE           ...OO.O.X
	     IBV_QP_ACCESS_FLAGS        ROOOO.OOX
	     IBV_QP_PKEY_INDEX          ROO....OX
	     IBV_QP_PORT                RO.....OX
	     IBV_QP_AV                  ..R....OX
	     IBV_QP_PATH_MTU            ..R.....X
	     IBV_QP_DEST_QPN            ..R.....X
	     IBV_QP_RQ_PSN              ..R.....X
	     IBV_QP_TIMEOUT             ...R...OX
	     IBV_QP_RETRY_CNT           ...R...OX
	     IBV_QP_RNR_RETRY           ...R...OX
	     IBV_QP_MAX_QP_RD_ATOMIC    ...R...OX
	     IBV_QP_SQ_PSN              ...R....X
	     IBV_QP_ALT_PATH            ..OOO.OOX
	     IBV_QP_PATH_MIG_STATE      ...OO.OOX
	     IBV_QP_EN_SQD_ASYNC_NOTIFY .....O..X`,
	XRCRecv: `IBV_QP_CUR_STATE           ...OO.O.X
	     IBV_QP_ACCESS_FLAGS        ROOOO.OOX
	     IBV_QP_PKEY_INDEX          ROO....OX
	     IBV_QP_PORT                RO.....OX
	     IBV_QP_AV                  ..R....OX
	     IBV_QP_PATH_MTU            ..R.....X
	     IBV_QP_DEST_QPN            ..R.....X
	     IBV_QP_RQ_PSN              ..R.....X
	     IBV_QP_MAX_DEST_RD_ATOMIC  ..R....OX
	     IBV_QP_MIN_RNR_TIMER       ..ROO.OOX
	     IBV_QP_TIMEOUT             ...R...OX
	     IBV_QP_SQ_PSN              ...R....X
	     IBV_QP_ALT_PATH            ..OOO.OOX
	     IBV_QP_PATH_MIG_STATE      ...OO.OOX
	     IBV_QP_EN_SQD_ASYNC_NOTIFY .....O..X`,
	UD: `IBV_QP_CUR_STATE           ...OO.O.O
	     IBV_QP_QKEY                ROOOO.OOO
	     IBV_QP_PKEY_INDEX          ROO....O.
	     IBV_QP_PORT                RO.......
	     IBV_QP_SQ_PSN              ...R.....
	     IBV_QP_EN_SQD_ASYNC_NOTIFY .....O...`,
}

func maskByName(t *testing.T, name string) Mask {
	for i := range 32 {
		if Mask(1<<i).String() == name {
			return 1 << i
		}
	}
	t.Fatalf("no attribute is named %s", name)
	return 0
}

// wanted reads the specification for one transition.
func wanted(t *testing.T, typ Type, from, to State) (required, optional Mask, legal bool) {
	legal = to == Reset || to == Err && from != Reset
	for c, col := range columns {
		if col != [2]State{from, to} {
			continue
		}
		legal = true
		for line := range strings.Lines(spec[typ]) {
			f := strings.Fields(line)
			switch f[1][c] {
			case 'R':
				required |= maskByName(t, f[0])
			case 'O':
				optional |= maskByName(t, f[0])
			case 'X':
				return 0, 0, false
			}
		}
	}
	if from == SQE && typ != UC && typ != UD { // IBTA 10.3.1.6
		legal = false
	}
	return
}

func TestCheckEveryTransitionFollowsSpecification(t *testing.T) {
	for typ := range spec {
		for from := Reset; from <= Err; from++ {
			for to := Reset; to <= Err; to++ {
				required, optional, legal := wanted(t, typ, from, to)
				checkTransition(t, typ, from, to, required, optional, legal)
			}
		}
	}
}

func checkTransition(t *testing.T, typ Type, from, to State, required, optional Mask, legal bool) {
	t.Helper()
	for _, mask := range []Mask{required, required | MaskState, required | optional | MaskState} {
		err := Check(typ, from, to, mask)
		if legal && err != nil {
			t.Errorf("%v: refused", err)
		}
		if !legal && (err == nil || !strings.HasSuffix(err.Error(), "illegal transition")) {
			t.Errorf("%v %v to %v: found %v, want illegal", typ, from, to, err)
		}
	}
	for i := range 32 {
		a := Mask(1 << i)
		if !legal || a == MaskState {
			continue
		}
		mask, missing, invalid := required|a, Mask(0), Mask(0)
		switch {
		case required&a != 0:
			mask, missing = required&^a, a
		case optional&a == 0:
			invalid = a
		}
		err := Check(typ, from, to, mask)
		var e *TransitionError
		if !errors.As(err, &e) {
			e = &TransitionError{typ, from, to, 0, 0}
		}
		if *e != (TransitionError{typ, from, to, missing, invalid}) {
			t.Errorf("%v %v to %v with %v: found %+v, want missing %v, invalid %v", typ, from, to, mask, *e, missing, invalid)
		}
	}
}

func TestCheckUnknownTypeOrStateIsIllegal(t *testing.T) {
	for _, c := range []struct {
		typ      Type
		from, to State
	}{{0, Reset, Init}, {8, Reset, Reset}, {RC, Err + 1, Reset}, {UD, Init, Err + 1}, {UC, 255, 255}} {
		if err := Check(c.typ, c.from, c.to, MaskState); err == nil {
			t.Errorf("type %d, %d to %d: accepted", c.typ, c.from, c.to)
		}
	}
}

func TestTransitionErrorNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		typ      Type
		from, to State
		mask     Mask
		want     string
	}{
		{RC, Reset, RTS, 0, "RC queue pair from RESET to RTS: illegal transition"},
		{UC, RTR, RTS, MaskState, "UC queue pair from RTR to RTS: missing IBV_QP_SQ_PSN"},
		{UD, RTS, RTS, MaskAV | MaskQKey, "UD queue pair from RTS to RTS: invalid IBV_QP_AV"},
		{RC, Reset, Init, MaskPort | MaskQKey | MaskCap,
			"RC queue pair from RESET to INIT: missing IBV_QP_ACCESS_FLAGS|IBV_QP_PKEY_INDEX; invalid IBV_QP_QKEY|IBV_QP_CAP"},
		{UD, Err, Reset, 1 << 25, "UD queue pair from ERR to RESET: invalid 0x2000000"},
	} {
		if err := Check(c.typ, c.from, c.to, c.mask); err == nil || err.Error() != c.want {
			t.Errorf("found %v\nwant  %s", err, c.want)
		}
	}
}
