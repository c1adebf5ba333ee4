package web

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/headgate/headgate/console"
	"github.com/headgate/headgate/internal/form"
	"github.com/headgate/headgate/views"
	"github.com/headgate/headgate/views/ui"
)

// maxRules bounds the rules that a form may carry.
const maxRules = 50

func (s *Server) ruleList(w http.ResponseWriter, r *http.Request) error {
	rules, err := s.Policies.ApprovalRules(r.Context())
	if err != nil {
		return err
	}
	var rows []views.RuleRow
	for _, rule := range rules {
		rows = append(rows, views.RuleRow{When: rule.When, Only: strings.Join(rule.Only, ", "), Approvals: strconv.Itoa(rule.Approvals)})
	}
	return s.renderRules(w, r, http.StatusOK, rows, form.New(nil))
}

func (s *Server) renderRules(w http.ResponseWriter, r *http.Request, status int, rows []views.RuleRow, f *form.Form) error {
	p := views.RulesProps{Frame: s.titled(r, "Approval rules"), Rows: rows, Form: f, Kinds: []ui.Option{{Value: "", Label: "(no longer)"}}}
	for _, kind := range console.RuleKinds() {
		p.Kinds = append(p.Kinds, ui.Option{Value: kind, Label: ruleText(kind)})
	}
	return s.render(w, r, status, views.Rules(p))
}

// ruleText is when a rule asks, for people.
func ruleText(kind string) string {
	switch kind {
	case console.WhenAny:
		return "anything changes"
	case console.WhenLooser:
		return "something becomes looser"
	case console.WhenTighter:
		return "something becomes tighter"
	case console.WhenFailMode:
		return "what happens without Redis changes"
	case console.WhenRemoval:
		return "something is removed"
	case console.WhenCredentials:
		return "how callers are told apart changes"
	case console.WhenUnlimited:
		return "something becomes unlimited"
	case console.WhenFailingTests:
		return "tests fail (lets them through)"
	}
	return kind
}

// ruleSave replaces the rules by those of the form; one whose "when" is empty is
// left out. With act=add it only gives the form a further row.
func (s *Server) ruleSave(w http.ResponseWriter, r *http.Request) error {
	n, _ := strconv.Atoi(r.PostForm.Get("rows"))
	n = min(max(n, 0), maxRules)
	names := []string{"act"}
	for i := range n {
		names = append(names, ruleField("when", i), ruleField("only", i), ruleField("approvals", i))
	}
	f := form.Parse(r, names...)
	var rows []views.RuleRow
	var rules []console.ApprovalRule
	places := []int{} // of each rule among the rows
	for i := range n {
		row := views.RuleRow{When: f.Get(ruleField("when", i)), Only: f.Raw(ruleField("only", i)), Approvals: f.Get(ruleField("approvals", i))}
		rows = append(rows, row)
		if row.When == "" {
			continue
		}
		rules = append(rules, console.ApprovalRule{When: row.When, Only: namesIn(row.Only), Approvals: int(takeInt(f, ruleField("approvals", i)))})
		places = append(places, i)
	}
	if f.Get("act") == "add" {
		rows = append(rows, views.RuleRow{When: console.WhenAny, Approvals: "1"})
		return s.renderRules(w, r, http.StatusOK, rows, form.New(nil))
	}
	if !f.OK() {
		return s.renderRules(w, r, http.StatusUnprocessableEntity, rows, f)
	}
	if err := s.Policies.SetApprovalRules(r.Context(), actor(r), rules); err != nil {
		status := s.takeReview(f, err)
		if status == 0 {
			return err
		}
		placeProblems(f, places)
		return s.renderRules(w, r, status, rows, f)
	}
	return s.redirect(w, r, ui.RulesURL(), "Rules saved. They hold from now on, for drafts that are open too.")
}

func ruleField(name string, i int) string { return name + "-" + strconv.Itoa(i) }

func namesIn(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t' })
}

// placeProblems puts problems of "rules[2].when" beside the row that it was.
func placeProblems(f *form.Form, places []int) {
	for name, problem := range f.Errors {
		rest, ok := strings.CutPrefix(name, "rules[")
		index, field, found := strings.Cut(rest, "]")
		i, err := strconv.Atoi(index)
		if !ok || !found || err != nil || i >= len(places) {
			continue
		}
		field, _, _ = strings.Cut(strings.TrimPrefix(field, "."), "[")
		if field == "" {
			field = "when"
		}
		f.Fail(ruleField(field, places[i]), problem)
	}
}
