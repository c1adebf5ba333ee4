// Package ui holds the components that every page of the console is made of:
// the frame with its rail and status strip, fields, tables, panels, charts,
// differences and pagers. Components take plain values, call nothing that can
// fail and write no inline script, style or event attribute, because the
// pages' Content-Security-Policy allows none.
//
// It imports, of this module, only static (addresses of assets); never console,
// db, web or a domain entity.
package ui
