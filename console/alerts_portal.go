package console

import "context"

// PortalAlertList is a tenant's marks, where it is told, and what it was told.
type PortalAlertList struct {
	Marks      []Threshold
	Channels   []AlertChannel // without secrets
	Alerts     []Alert        // the last fifty
	Deliveries []AlertDelivery
	Members    []Member // who mail can go to
}

// AlertList is all that the tenant's page of alerts shows.
func (s *Portal) AlertList(ctx context.Context, actor Actor) (out PortalAlertList, err error) {
	err = s.read(ctx, actor, func(tx PortalTx) error {
		if out.Marks, err = tx.Thresholds(ctx); err != nil {
			return err
		}
		if out.Channels, err = tx.AlertChannels(ctx); err != nil {
			return err
		}
		if out.Alerts, err = tx.Alerts(ctx); err != nil {
			return err
		}
		if out.Deliveries, err = tx.AlertDeliveries(ctx); err != nil {
			return err
		}
		out.Members, err = tx.Members(ctx)
		return err
	})
	return out, err
}
