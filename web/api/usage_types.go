package api

import "time"

// UsageSums are what was used: three numbers that are never mixed, and what became
// of the rest.
type UsageSums struct {
	Admitted    int64 `json:"admitted" doc:"Requests that went to the upstream, without interrupted ones"`
	Cost        int64 `json:"cost" doc:"Cost that was charged, settlements included, interrupted requests left out"`
	Refused     int64 `json:"refused" doc:"Requests that a limit, a quota or a fail mode turned away"`
	Other       int64 `json:"other" doc:"Requests that were turned away for anything else: no key, no route, a suspended tenant, not valid"`
	Interrupted int64 `json:"interrupted" doc:"Requests whose gateway was killed before it knew how they ended; not in admitted, and not billed by default"`
	Settled     int64 `json:"settled" doc:"The part of cost that later corrections made; may be negative"`
	Fallback    int64 `json:"fallback" doc:"The part of admitted that was decided without Redis"`
}

// UsageStep is the sums of one step of time.
type UsageStep struct {
	From     time.Time `json:"from" doc:"Its beginning, with the offset of the zone"`
	Complete bool      `json:"complete" doc:"The ledger has all of it"`
	UsageSums
}

// UsageGroup is the sums of one tenant, route, key, plan, outcome or gateway.
type UsageGroup struct {
	Key  string `json:"key" doc:"An id or name; empty for requests without one" example:"ten_abcdefghij234567"`
	Name string `json:"name,omitempty" doc:"Of a tenant; of a key its credential and tenant"`
	UsageSums
	Steps []int64 `json:"steps,omitempty" doc:"Admitted requests, or cost when asked by cost, of each step"`
}

// UsageReport is what was used in a range of time.
type UsageReport struct {
	From    time.Time  `json:"from"`
	To      time.Time  `json:"to" doc:"The first moment beyond the range"`
	Step    string     `json:"step" enum:"minute,hour,day,month"`
	Zone    string     `json:"zone" doc:"Whose clock the steps follow" example:"Europe/Berlin"`
	Through *time.Time `json:"through,omitempty" doc:"The ledger has everything up to then; absent: nothing has come yet"`
	Total   UsageSums  `json:"total"`

	Steps  []UsageStep  `json:"steps" nullable:"false"`
	Group  string       `json:"group,omitempty"`
	Groups []UsageGroup `json:"groups" nullable:"false" doc:"The largest first, as many as top"`
	Rest   *UsageGroup  `json:"rest,omitempty" doc:"All that is beyond the top, together"`
}

// UsageEvent is one row of the ledger, which never changes.
type UsageEvent struct {
	ID       string    `json:"id" doc:"For ever the same: gateway, its boot, and the number in it" example:"gw_abcdefghij234567/6Q3F/41204"`
	At       time.Time `json:"at" doc:"The second that it counts"`
	Tenant   string    `json:"tenant" doc:"Empty on routes that know callers by address"`
	KID      string    `json:"kid"`
	Route    string    `json:"route"`
	Outcome  string    `json:"outcome"`
	Requests int64     `json:"requests" doc:"0 for settlements"`
	Cost     int64     `json:"cost" doc:"Of admitted requests; negative where a settlement gives back"`
	Billable bool      `json:"billable" doc:"Admitted requests and settlements are"`
}

// CloudEvent is a row of the ledger as a CloudEvent 1.0 in JSON, as OpenMeter takes it.
type CloudEvent struct {
	SpecVersion     string         `json:"specversion" example:"1.0"`
	Type            string         `json:"type" example:"headgate.usage"`
	ID              string         `json:"id" doc:"With source, for ever the same"`
	Source          string         `json:"source" example:"/headgate/gw_abcdefghij234567/6Q3F"`
	Subject         string         `json:"subject" doc:"The tenant's external id, or its id without one"`
	Time            time.Time      `json:"time"`
	DataContentType string         `json:"datacontenttype" example:"application/json"`
	Data            CloudEventData `json:"data"`
}

// CloudEventData is what a meter adds up and groups by.
type CloudEventData struct {
	Requests int64  `json:"requests"`
	Cost     int64  `json:"cost"`
	Tenant   string `json:"tenant"`
	KID      string `json:"kid"`
	Route    string `json:"route"`
	Outcome  string `json:"outcome"`
}
