package policy

import "time"

// TenantLanes is the number of lanes that tenants' limiter state is spread over. A lane's
// keys have one hash tag, so that a Cluster keeps them together.
const TenantLanes = 256

// TenantLane is the lane of a tenant: FNV-1a of its id, mod TenantLanes.
func TenantLane(tenant string) int {
	h := uint32(2166136261)
	for i := range len(tenant) {
		h = (h ^ uint32(tenant[i])) * 16777619
	}
	return int(h % TenantLanes)
}

// QuotaCounter is what Redis counts of a tenant's quota in one period.
type QuotaCounter struct {
	Tenant string
	Start  time.Time // of the period, which names the counter
	End    time.Time // zero: a lifetime
	Units  int64     // 0..MaxUnits-1
}

// AbsentUnits stands for a counter that is not there.
const AbsentUnits int64 = -1
