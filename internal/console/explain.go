package console

import (
	"net/http"

	"softrdma/internal/control"
	"softrdma/internal/explain"
)

// maxQuery bounds what is to be explained, in bytes.
const maxQuery = 1000

// An explanation is what softrdma explain says of a name.
type explanation struct {
	Name    string   `json:"name"`
	Label   string   `json:"label"`
	Meaning string   `json:"meaning"`
	Cause   string   `json:"cause,omitempty"`
	Look    string   `json:"look,omitempty"`
	Remedy  string   `json:"remedy,omitempty"`
	Clause  string   `json:"clause,omitempty"`
	See     []string `json:"see"`
}

// explainLine explains a name, a number or a line that has some.
func explainLine(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query().Get("q")
	if len(q) > maxQuery {
		control.Refuse(w, http.StatusBadRequest, "q: expected at most %d bytes, found %d", maxQuery, len(q))
		return
	}
	found, err := explain.Lookup(q)
	if err != nil {
		control.Refuse(w, http.StatusNotFound, "%v", err)
		return
	}
	all := []explanation{}
	for i := range found {
		e := &found[i]
		all = append(all, explanation{e.Name, e.Label(), e.Meaning, e.Cause, e.Look, e.Remedy, e.Clause, append([]string{}, e.See...)})
	}
	reply(w, all)
}
