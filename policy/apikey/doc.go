// Package apikey is the format of Headgate's API keys:
//
//	hg_<live|test|ops>_<kid: 12 base62>_<secret: 32 base62><crc: 6 base62>
//
// with base62 over 0-9A-Za-z and crc the CRC-32/IEEE of everything before it,
// left-padded with 0. It makes, parses and hashes keys and never prints one.
// It imports only the standard library.
package apikey
