// Package openidtest is an OpenID provider for tests.
package openidtest
