package views

// ErrorProps is a page that tells why there is no page.
type ErrorProps struct {
	Environment string
	Status      int
	Title       string // what happened: "There is no such page"
	Text        string // what to do about it
	RequestID   string // to be named to whoever runs the console
	Home        string // address to go on to; empty leaves it out
}
