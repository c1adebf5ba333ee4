package views

import "github.com/headgate/headgate/views/ui"

// ErrorProps is a page that tells why there is no page.
type ErrorProps struct {
	Frame     ui.FrameProps // with an operator the page stands in the frame, else alone
	Status    int
	Title     string // of the status: "Not Found"
	Message   string // what happened and what to do, in words for the user
	RequestID string // to be named to whoever runs the console
	RetryURL  string // of the same page, where trying again may help; "" for none
}
