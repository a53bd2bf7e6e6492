// Package inorder publishes messages with keys, handles them in order by key while somebody breaks things, and
// audits that: each message begins after all earlier ones of its key have ended, none is lost, and what is handled
// twice is explained by a takeover.
package inorder
