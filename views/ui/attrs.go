package ui

import "github.com/a-h/templ"

// currentPage marks the link to the page that is being looked at.
func currentPage(yes bool) templ.Attributes {
	if yes {
		return templ.Attributes{"aria-current": "page"}
	}
	return nil
}
