package decisionlog

// Comparison is what a document would have decided otherwise than another one,
// on a log. Times are Unix µs.
type Comparison struct {
	From, To int64    `json:"-"`
	Entries  int64    `json:"entries"`  // decisions that were replayed
	Skipped  int64    `json:"skipped"`  // not replayable: of subjects that were not whole in the log
	Dropped  int64    `json:"dropped"`  // that gateways could not log
	Sample   uint32   `json:"sample"`   // the smallest of the batches'; Whole when nothing was left out
	Refused  Change   `json:"refused"`  // newly refused
	Admitted Change   `json:"admitted"` // newly admitted
	Both     Totals   `json:"both"`     // the same in both
	Differs  int64    `json:"differs"`  // live replay against the log itself: 0 for a log without gaps
	Notes    []string `json:"notes"`    // what could not be judged, for people
	Rows     []Row    `json:"rows"`     // by tenant, route and limit; the largest first, at most 500
	MoreRows int      `json:"more_rows"`
}

// Totals counts decisions that stay as they are.
type Totals struct {
	Admitted int64 `json:"admitted"`
	Refused  int64 `json:"refused"`
}

// Change counts decisions that come out otherwise.
type Change struct {
	Requests int64 `json:"requests"`
	Tenants  int64 `json:"tenants"`
}

// Row is what changes for one tenant on one route by one limit.
type Row struct {
	Tenant   string `json:"tenant"` // "" where there is none
	Route    string `json:"route"`
	Limit    string `json:"limit"`    // that newly refuses, or no longer does
	Refused  bool   `json:"refused"`  // newly refused; else newly admitted
	Requests int64  `json:"requests"` // in all
	First    int64  `json:"first"`    // Unix µs
	Last     int64  `json:"last"`
	Peak     int64  `json:"peak"`    // most in one minute
	PeakAt   int64  `json:"peak_at"` // beginning of that minute
}
