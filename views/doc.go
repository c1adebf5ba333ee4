// Package views holds the console's pages as templ components. Each page takes
// one Props of plain fields that the web package has computed; a view makes no
// call that can fail and never sees a domain entity, so nothing secret can
// reach a page by accident.
//
// It imports, of this module, only views/ui, internal/form and policy.
package views
