// Package consume handles the deliveries of a queue: it admits a delivery (Admit), runs the handler,
// decides what happens to the message (Decide), moves it to a delay queue or the failed queue if
// necessary, and settles the original. Its caller turns deliveries of package rabbit into what a
// handler sees (Handler).
package consume
