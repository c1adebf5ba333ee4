// Package storetest is the suite that every limiter.Store passes, and the
// reference model that it holds stores to: buckets in arbitrary-precision
// integers, written apart from limiter's own arithmetic.
//
// It imports limiter and policy and nothing else of this module.
//
// # What a store does
//
// The types of package limiter say what is asked. This list says what is
// answered where they leave it open; the suite holds stores to it.
//
// In general:
//
//  1. A call is judged at one instant, now: the store's clock, read once. All
//     spans are half-open: what ends at E has ended when now = E.
//  2. A call with an error of its own (uncountable, ctx over) changes nothing.
//     A draw without any part is admitted.
//  3. A row that a call looks at is mended first: a time that lies after now
//     becomes now, its level unchanged; a bucket that has been full for
//     limiter.ForgetMicros is dropped. This also happens when the draw is refused.
//  4. A bucket that a draw looks at and that was written under other numbers is
//     rewritten under the draw's (refilled at the old ones, carried over, clamped),
//     also when the draw is refused. Carrying over rounds down, a debt away from 0.
//  5. Otherwise a refused draw writes nothing that could be observed.
//
// Take:
//
//  6. Every part is judged on the state before the draw, and reports its own
//     verdict, whatever the others say. Admitted: no part that is no shadow refuses.
//  7. An admitted draw is spent: all parts that are no shadows. Its shadows are spent
//     too if none of them refuses, else none of them is.
//  8. A charge refuses when the level is below Cost×Period. Level.Units is the level at
//     now, less Cost and Extra if the charge was spent. WaitMicros is the exact
//     wait of a charge that refuses (a shadow too), and 0 of all others. A bucket
//     in debt has negative Units.
//  9. Extra is granted as min(Extra, whole tokens left after Cost) to a charge that is
//     spent and is not counted in an overflow bucket; else it is 0.
//  10. A slot refuses when Max or more leases are held. A lease is held while its expiry is
//     above now. Spending makes the lease, expiry now+HoldMicros. A lease of that name that is held
//     already is only given the new expiry. SlotLevel.Active is the leases held
//     after the decision: with the new one if it was spent. It may be above Max
//     when Max was lowered. Nothing but a renewal moves an expiry. Ended leases are dropped when
//     a lease of their set is made or renewed; before that they are held again if the
//     clock steps back.
//  11. A quota's cap is Amount, or with Bill Most, or with Bill and Most 0
//     policy.MaxUnits-1. It refuses when Cost > cap - used. QuotaLevel.Used is the counter
//     after the decision. Overage: it was spent, Bill, and Used > Amount.
//  12. A quota's counter is named by row, limit and Start alone. Whether now lies in the
//     period is the caller's business: a draw that comes late still counts in the period
//     that it names. The counter is kept until an hour after End, at least an
//     hour from the last write; with End 0 for 400 days from the last draw that named it.
//     Past that it may be gone.
//     A quota with Recorded is Lost as long as its lane holds no mark (World.Mark), whether its
//     counter is there or not: a settlement may have made one after a flush. A lost one refuses
//     without Bill, and with Bill is judged and spent on the counter as it is. Without Recorded
//     no mark is looked at, and nothing is Lost.
//
// Identifiers (Charge.Identifiers = max > 0):
//
//  13. They are counted by limit: a subject is known when its row holds a bucket of this
//     limit after mending. A known one is counted in it, and nothing else is looked at.
//  14. Otherwise two buckets in the overflow row of the scope matter. The scope is the row's
//     tenant, or without one the lane of the subject's row, which is the store's
//     choice (it may be one for all addresses); limiter.CheckDraw sees to it that no two charges
//     of a draw with Identifiers have one Hash. The gate has the hash ^Hash (all bits
//     turned) and the numbers limiter.IdentifierNumbers(Numbers, max); the overflow bucket
//     has the charge's own hash and numbers.
//  15. If the gate holds a token, the charge is judged on a full bucket in the subject's own
//     row; spending it also takes one token from the gate. Else the charge is judged on and
//     spent from the overflow bucket alone, and Level.Overflow says so, also when
//     refused. The overflow row is mended and rule 4 holds for the gate and, if it is looked
//     at, for the overflow bucket.
//
// Amend:
//
//  16. An id that was applied within the last hour changes nothing, and nothing is mended.
//     What happens to one older than an hour is not said. On a Cluster an id is
//     remembered for each lane.
//  17. Corrections are applied in their order, each on what those before it left. A return
//     to a bucket (Tokens > 0) with Since brings min(Tokens, burst)×Period - (now-Since)×tokens
//     units by the bucket's own numbers, and none when that is below 0 or now < Since.
//  18. A bucket that is there (after mending) keeps its own numbers, which may be newer than
//     the amendment's: it is refilled to now, Tokens×its own Period (or rule 17's units) are added, the result is
//     clamped to full above and to the largest debt below, and its time is now, even if
//     Tokens is 0. The largest debt of numbers n is policy.MaxUnits-1 - n.Tokens -
//     n.Burst×n.Period units; carrying over (rule 4) clamps to that of the new numbers.
//  19. A bucket that is not there: tokens given back (or 0) change nothing; a charge makes the
//     bucket, full under the amendment's numbers, and is taken from it, clamped as above.
//     Amendments count no identifiers and reach no overflow bucket: who was counted in one
//     asks for no correction.
//  20. A quota's counter: given back down to 0, charged up to policy.MaxUnits-1, whatever its
//     amount; made by a charge if it is not there, left alone by 0.
//
// Renew, Release:
//
//  21. Leases are handled in their order. One that is held gets the expiry
//     now+HoldMicros, which may be sooner than before (a clock that stepped back). One that
//     is not held, because it ended or was lost, is made again if fewer than Max are held,
//     else reported as not held, and nothing changes. So there are never more
//     than Max unless Max was lowered.
//  22. Release ends a lease at once; one that is not held changes nothing.
//
// Several lanes (redisstore on a Cluster only):
//
//  23. A draw over several lanes is asked lane by lane. A lane that is not asked because one
//     before it refused reports Unknown levels; what earlier lanes spent is given
//     back by Amend and Release soon after. The suite keeps to one lane where it
//     compares answers, see World.Lane.
//  24. When a lane does not answer and others are left, Take fails with a
//     limiter.PartialError. Its Rest goes on with the lanes that were not asked; what
//     lies in the failed one is Unknown in the outcome.
package storetest
