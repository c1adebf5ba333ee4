// Package dimension reads from a request the values that limits are counted per:
// fields of its body, headers, the user. A value is present, missing, or there in
// a form that cannot be read for certain; the three are never mistaken for each
// other, however they are spelled.
//
// It must not import the gateway, stores or the control plane: of this module it
// knows only the policy's words for dimensions.
package dimension
