package views

import "github.com/a-h/templ"

// stepNow marks the step of a wizard that one is at.
func stepNow(yes bool) templ.Attributes {
	if yes {
		return templ.Attributes{"aria-current": "step"}
	}
	return nil
}

// multipart lets a form carry a file.
func multipart(yes bool) templ.Attributes {
	if yes {
		return templ.Attributes{"enctype": "multipart/form-data"}
	}
	return nil
}

// invalid marks a field that has a problem.
func invalid(problem string) templ.Attributes {
	if problem != "" {
		return templ.Attributes{"data-invalid": true}
	}
	return nil
}
