package views

import "github.com/a-h/templ"

// stepNow marks the step of a wizard that one is at.
func stepNow(yes bool) templ.Attributes {
	if yes {
		return templ.Attributes{"aria-current": "step"}
	}
	return nil
}
