package usage

import (
	"cmp"
	"slices"
)

// keptRows leaves room in a batch for the rows that the rest is added up in.
const keptRows = MaxRows - 200

// rowsOf orders the counts by second and holds them to MaxRows: the largest
// stay as they are, the others are added up under tenant Rest, by route if that
// is enough and otherwise with all routes together.
func rowsOf(sum map[cellKey]cell) []Row {
	rows := make([]Row, 0, len(sum))
	for k, v := range sum {
		rows = append(rows, k.row(v))
	}
	if len(rows) > MaxRows {
		slices.SortFunc(rows, func(a, b Row) int {
			return cmp.Or(cmp.Compare(b.Requests, a.Requests), compareRows(a, b))
		})
		rows = append(rows[:keptRows:keptRows], foldRest(rows[keptRows:])...)
	}
	slices.SortFunc(rows, compareRows)
	return rows
}

func (k cellKey) row(v cell) Row {
	return Row{Second: k.second, Tenant: k.tenant, Route: k.route, Outcome: k.outcome, Limit: k.limit,
		Requests: v.requests, Cost: v.cost}
}

// foldRest adds rows up under tenant Rest until they fit into the room that is
// left: by route, then without routes, then (a replica that has not shipped for
// a while) in the newest second alone, which leaves a row an outcome.
func foldRest(rows []Row) []Row {
	newest := rows[0].Second
	for _, r := range rows {
		newest = max(newest, r.Second)
	}
	coarser := []func(k *cellKey){
		func(*cellKey) {},
		func(k *cellKey) { k.route = Rest },
		func(k *cellKey) { k.route, k.second = Rest, newest },
	}
	var out []Row
	for _, coarsen := range coarser {
		sum := map[cellKey]cell{}
		for _, r := range rows {
			k := cellKey{second: r.Second, tenant: Rest, route: r.Route, outcome: r.Outcome}
			coarsen(&k)
			v := sum[k]
			sum[k] = cell{v.requests + r.Requests, v.cost + r.Cost}
		}
		out = out[:0]
		for k, v := range sum {
			out = append(out, k.row(v))
		}
		if len(out) <= MaxRows-keptRows {
			break
		}
	}
	return out
}

func compareRows(a, b Row) int {
	return cmp.Or(cmp.Compare(a.Second, b.Second), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Route, b.Route),
		cmp.Compare(a.Outcome, b.Outcome), cmp.Compare(a.Limit, b.Limit))
}
