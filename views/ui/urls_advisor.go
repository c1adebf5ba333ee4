package ui

import "net/url"

// AdvisorURL is limits from measurement.
func AdvisorURL() string { return "/advisor" }

// AdvisorLiveURL is the part of it that asks for itself while a report is made.
func AdvisorLiveURL() string { return "/live/advisor" }

// AdvisorLimitURL is one limit's page; plan "" where it is no plan's.
func AdvisorLimitURL(id, plan string) string {
	q := url.Values{"id": {id}}
	if plan != "" {
		q.Set("plan", plan)
	}
	return "/advisor/limit?" + q.Encode()
}

// AdvisorTryURL takes the form that tries other numbers.
func AdvisorTryURL() string { return "/advisor/try" }

// AdvisorTrialURL is the trial of other numbers for one limit, and its live part.
func AdvisorTrialURL(trial string) string { return "/advisor/trials/" + url.PathEscape(trial) }

// AdvisorTrialLiveURL is the trial alone.
func AdvisorTrialLiveURL(trial string) string { return "/live" + AdvisorTrialURL(trial) }

// CapacityURL is one measurement of a route.
func CapacityURL(id string) string { return "/advisor/capacities/" + url.PathEscape(id) }
