// Package software finds the programs of the database servers, or fetches what
// is missing and unpacks it into a folder of its own. It installs nothing into
// the system, so it needs no rights, starts no daemon and leaves nothing
// behind but that folder.
package software
