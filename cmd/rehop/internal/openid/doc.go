// Package openid logs users of the console in with an OpenID provider.
package openid
