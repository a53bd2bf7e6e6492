// Package console is a web console for operators: it shows queues, failed and waiting messages, and replays and discards failed
// messages. It is an http.Handler, so you can mount it in your own server, with your own login.
//
// All pages are made on the server and work without JavaScript. The console keeps no data: it shows what package admin reads from
// the broker.
package console
