// Package external uses this module from another one, as users do: internal packages are out of its reach.
package external
