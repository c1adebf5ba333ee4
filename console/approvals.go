package console

import "context"

// Comment adds a remark to a draft. It voids nothing.
func (s *Policies) Comment(ctx context.Context, actor Actor, draft, text string) (Comment, error) {
	return Comment{}, noProver()
}

// Approve gives the actor's word for the content of a draft that has digest
// (Readiness.Digest). It is refused for the draft's author and for whoever
// saved it since its base; CodeConflict when the content is another one by now.
func (s *Policies) Approve(ctx context.Context, actor Actor, draft, digest, note string) (Approval, error) {
	return Approval{}, noProver()
}

// Withdraw takes the actor's approval of a draft back.
func (s *Policies) Withdraw(ctx context.Context, actor Actor, draft string) error { return noProver() }

// ApprovalRules lists the rules in force; none at first.
func (s *Policies) ApprovalRules(ctx context.Context) ([]ApprovalRule, error) {
	return nil, noProver()
}

// SetApprovalRules replaces the rules.
func (s *Policies) SetApprovalRules(ctx context.Context, actor Actor, rules []ApprovalRule) error {
	return noProver()
}
