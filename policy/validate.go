package policy

// Validate reports everything that is wrong with a document.
func Validate(d *Document) Report { return Report{} }

// MissingPlans lists the plans of inUse that the document does not have, sorted
// and each once. Publishing refuses a document that drops a plan tenants are on.
func (d *Document) MissingPlans(inUse []string) []string { return nil }
