// Package requests is a suite of requests and replies between rehop's clients, and between them and other
// clients, for any broker.
package requests
