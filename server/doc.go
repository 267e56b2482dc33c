// Package server is the payments API over HTTP: it decodes and validates
// requests, hands intents to the flow, and answers with what the flow says. It
// decides nothing about payments itself. What clients may rely on stands in
// openapi.yaml, which is served at GET /openapi.yaml.
package server
