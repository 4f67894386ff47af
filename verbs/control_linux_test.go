package verbs_test

import (
	"net/http"
	"net/url"
	"os"
	"testing"

	"softrdma/internal/control"
	"softrdma/internal/object"
	"softrdma/verbs"
)

// A device of the process answers with what its objects are.
func TestDeviceAnswersOnTheControlSocket(t *testing.T) {
	t.Setenv("SOFTRDMA_CONTROL_DIR", t.TempDir())
	a, _ := pair(t, 64, verbs.RC)
	all, err := control.Processes(t.Context())
	if err != nil || len(all) != 1 || all[0].Process.PID != os.Getpid() {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, d := range all[0].Devices {
		if d.Address != a.dev.Addr().String() {
			continue
		}
		var l object.List
		if err := all[0].Ask(t.Context(), http.MethodGet, "/v1/devices/"+url.PathEscape(d.Name)+"/objects", nil, &l); err != nil {
			t.Fatal(err)
		}
		c := a.dev.Counts()
		if len(l.QPs) != c.QP || len(l.CQs) != c.CQ || len(l.PDs) != c.PD || len(l.MRs) != c.MR+c.MW || l.Counts != object.Counts(c) || c.QP == 0 {
			t.Errorf("%+v, expected %+v", l, c)
		}
		if q := l.QPs[0]; q.Number != a.qp.Number() || q.Type != "RC" || q.State != "RTS" || q.PathMTU == 0 || q.SendCQ == 0 {
			t.Errorf("%+v", q)
		}
		return
	}
	t.Errorf("no device %v in %+v", a.dev.Addr(), all[0].Devices)
}
