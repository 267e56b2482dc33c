// Package daemon runs database servers as processes of their own: on loopback,
// in a folder that goes with them, with every setting that keeps data safe as
// the server's makers chose it. A server dies with the program that started
// it, however that ends.
package daemon
