// Package consume takes deliveries from a queue and sees each of them through: it admits a delivery
// (Admit), runs the handler, decides by what the handler returned what becomes of the message (Decide),
// moves the message to where it belongs next if it has to, and settles the original. It knows
// deliveries as the package rabbit has them; its caller makes of them what a handler sees (Handler).
package consume
