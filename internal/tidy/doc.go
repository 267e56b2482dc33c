// Package tidy holds the tests of this repository itself: who may import
// whom, how long a function may be, that every exported name is documented and
// that what the pages promise (paths, targets, flags, diagrams) exists.
//
// Each check has a small bad example in testdata on which it must fail, so a
// check that has gone blind is noticed. Exceptions stand in exceptions.txt; one
// that is no longer needed fails too, so the list can only shrink.
package tidy
