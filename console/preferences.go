package console

import (
	"slices"
	"time"
)

const (
	themeCookie = "rehop-theme"
	keysCookie  = "rehop-keys"
	timesCookie = "rehop-times"
	// preferencesLast is how long a browser keeps them.
	preferencesLast = 365 * 24 * time.Hour
)

// prefer keeps how a browser shows the console. It needs no login: the login page has the switch, too.
func (x *call) prefer() error {
	form := x.r.PostForm
	if theme := form.Get("theme"); slices.Contains([]string{"light", "dark", "auto"}, theme) {
		x.setCookie(themeCookie, theme, preferencesLast)
	}
	if keys := form.Get("keys"); keys == "on" || keys == "off" {
		x.setCookie(keysCookie, keys, preferencesLast)
	}
	if times := form.Get("times"); times == "utc" || times == "local" {
		x.setCookie(timesCookie, times, preferencesLast)
	}
	if x.user.Role < Viewer {
		redirect(x.w, loginPath)
		return nil
	}
	redirect(x.w, x.console.local(form.Get("back")))
	return nil
}

// theme is light or dark, or auto for the browser's choice.
func (x *call) theme() string {
	if c, err := x.r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return "auto"
}

// times is utc or local. Only a browser knows its time zone, so the script writes local times.
func (x *call) times() string {
	if c, err := x.r.Cookie(timesCookie); err == nil && c.Value == "local" {
		return "local"
	}
	return "utc"
}

// keys reports whether shortcuts of one key are on. Users of speech input turn them off.
func (x *call) keys() bool {
	c, err := x.r.Cookie(keysCookie)
	return err != nil || c.Value != "off"
}

// shortcuts lists what keys do.
func (x *call) shortcuts() error { return x.show("shortcuts", "Shortcuts", x.navigation()) }
